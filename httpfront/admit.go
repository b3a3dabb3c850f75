package httpfront

// Admit asks for byte permits for a body that has been read already: on some routes only the body tells whether a request needs
// them (cluster 11.1). It waits for room as other requests do before their body. The permits go back with the answer. Only the
// goroutine of the handler may call it, once.
func (r *Request) Admit() error {
	bytes := int64(len(r.Body()))
	switch r.server.admission.acquire(bytes) {
	case admitRefused:
		return Refuse(CodeOverloaded, textOverloaded)
	case admitClosed:
		return Refuse(CodeRetry, textStopping)
	}
	r.admitted = bytes
	return nil
}

// release gives the permits of Admit back.
func (r *Request) release() { r.server.admission.release(r.admitted) }
