package actors

import (
	"queen/store"
)

// step asks an actor to run one step of its pure machine. It is the one message of the actors whose state is a machine and
// nothing else: catalog, partition, lease table. Sent by the apply actor, as an inline call.
type step[M any] struct {
	reader store.Reader
	// run gets the machine; what it returns is for the apply actor, not a crash.
	run func(machine M) error
	err error
}

// inActor runs a step of an actor that the apply actor owns.
func inActor[M any](a *apply, handle *Handle, run func(machine M) error) error {
	s := &step[M]{reader: a.batch, run: run}
	if err := a.call(handle, s); err != nil {
		return err
	}
	return s.err
}

// holder is the behavior of such an actor: it loads its machine from the store view with the first message, and again
// after it was re-made.
type holder[M any] struct {
	load    func(reader store.Reader) (M, error)
	machine M
	loaded  bool
}

// Receive implements Behavior.
func (h *holder[M]) Receive(message any) {
	s, ok := message.(*step[M])
	if !ok {
		panic("BUG: actor got a message it does not know")
	}
	if !h.loaded {
		if h.machine, s.err = h.load(s.reader); s.err != nil {
			return
		}
		h.loaded = true
	}
	s.err = s.run(h.machine)
}
