package wire

import "strconv"

// FetchPlace is what an entry of a fetch answers besides its records (messaging 13.1).
type FetchPlace struct {
	PartitionName
	HighWatermark  uint64
	LogStartOffset uint64
	// Error is empty for success.
	Error string
}

// FetchRecord is one record. The slices are only read while it is appended.
type FetchRecord struct {
	Offset      uint64
	Txid        []byte
	Payload     []byte
	StampMicros uint64
	// DecryptError says that Payload is the stored form, because no key fits (state 8.4).
	DecryptError bool
}

// FetchWriter appends the answer to a fetch piece by piece: NewFetchWriter, then for each entry Open, its Records, and
// Close, then End.
type FetchWriter struct {
	dst              []byte
	entries, records int
}

// NewFetchWriter begins an answer.
func NewFetchWriter(dst []byte) *FetchWriter {
	return &FetchWriter{dst: append(dst, `{"entries":[`...)}
}

// Open begins an entry.
func (w *FetchWriter) Open(name *PartitionName) {
	if w.entries > 0 {
		w.dst = append(w.dst, ',')
	}
	w.entries++
	w.records = 0
	w.dst = appendText(w.dst, '{', "queue", name.Queue)
	w.dst = appendText(w.dst, ',', "partition", name.Partition)
	w.dst = append(w.dst, `,"records":[`...)
}

// Record appends a record of the entry.
func (w *FetchWriter) Record(r *FetchRecord) {
	dst := w.dst
	if w.records > 0 {
		dst = append(dst, ',')
	}
	w.records++
	dst = appendUint(dst, '{', "offset", r.Offset)
	dst = appendText(dst, ',', "transactionId", r.Txid)
	dst = append(append(dst, `,"payload":`...), r.Payload...)
	dst = append(AppendTimeMicros(append(dst, `,"ts":"`...), r.StampMicros), '"')
	if r.DecryptError {
		dst = append(dst, `,"decryptError":true`...)
	}
	w.dst = append(dst, '}')
}

// Close ends the entry.
func (w *FetchWriter) Close(place *FetchPlace) {
	dst := append(w.dst, `],"highWatermark":`...)
	dst = strconv.AppendUint(dst, place.HighWatermark, 10)
	dst = appendUint(dst, ',', "logStartOffset", place.LogStartOffset)
	if place.Error != "" {
		dst = appendText(dst, ',', "error", place.Error)
	}
	w.dst = append(dst, '}')
}

// Bytes is the size of the answer so far.
func (w *FetchWriter) Bytes() int { return len(w.dst) }

// End returns the whole answer.
func (w *FetchWriter) End() []byte { return append(w.dst, `]}`...) }
