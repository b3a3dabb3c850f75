package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"sync/atomic"
)

// Call sends a request to the sender and returns its answer.
type Call func(ctx context.Context, request []byte) ([]byte, error)

// ReceiverOptions are the settings of a Receiver.
type ReceiverOptions struct {
	// Dir is where the parts go, under their names. NewReceiver empties it. Required.
	Dir string
	// MaxBytes bounds all parts together. Required; the free space of the volume is a good bound.
	MaxBytes int64
	// MaxPartBytes and MaxParts bound a part and their number. Zero means 1 GiB and 2^20.
	MaxPartBytes int64
	MaxParts     int
	// Accept looks at what the sender says before the first part comes: the bytes of its caller, and about how much will
	// come. Its error ends Fetch. Nil accepts everything.
	Accept func(meta []byte, about int64) error
}

const (
	// maxDamaged is how often a part may come damaged.
	maxDamaged = 5
	// maxRestarts is how often one Fetch begins anew because the sender has given up the export.
	maxRestarts = 3
)

// Receiver fetches one export. One goroutine at a time calls Fetch; Received may be called beside it.
type Receiver struct {
	options  ReceiverOptions
	received atomic.Int64
	progress
}

// progress is how far an export has come.
type progress struct {
	opened   bool
	export   begun
	part     int   // the part that is coming, from 1
	bytes    int64 // of the parts that have come
	finished bool

	// Of the part that is coming; name is empty before its first range.
	name    string
	size    int64
	offset  int64
	hash    hash.Hash
	file    *os.File
	damaged int
}

// Result is what has been fetched.
type Result struct {
	Meta  []byte
	Parts int
	Bytes int64
}

// NewReceiver makes or empties the directory.
func NewReceiver(options ReceiverOptions) (*Receiver, error) {
	if options.MaxPartBytes == 0 {
		options.MaxPartBytes = 1 << 30
	}
	if options.MaxParts == 0 {
		options.MaxParts = 1 << 20
	}
	if options.Accept == nil {
		options.Accept = func([]byte, int64) error { return nil }
	}
	r := &Receiver{options: options}
	if err := r.reset(); err != nil {
		return nil, err
	}
	return r, nil
}

// Received is how many bytes have come of the present export.
func (r *Receiver) Received() int64 { return r.received.Load() }

// reset forgets everything.
func (r *Receiver) reset() error {
	err := r.closeFile()
	r.progress = progress{part: 1}
	r.received.Store(0)
	if err == nil {
		err = os.RemoveAll(r.options.Dir)
	}
	if err == nil {
		err = os.MkdirAll(r.options.Dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("empty %s: %w", r.options.Dir, err)
	}
	return nil
}

// Fetch brings all parts. After an error it may be called again, with the same sender or another, and goes on with what
// has come; a new Receiver fetches anew. Each part is fsynced when it has come, so that the disk works while the network
// does, and not all at once at the end.
func (r *Receiver) Fetch(ctx context.Context, call Call) (Result, error) {
	result, err := r.fetch(ctx, call)
	if err = errors.Join(err, r.closeFile()); err != nil {
		return Result{}, fmt.Errorf("fetch state into %s: %w", r.options.Dir, err)
	}
	return result, nil
}

func (r *Receiver) fetch(ctx context.Context, call Call) (Result, error) {
	for restarts := 0; !r.finished; {
		err := context.Cause(ctx)
		switch {
		case err != nil:
		case !r.opened:
			err = r.begin(ctx, call)
		default:
			err = r.fetchRange(ctx, call)
		}
		if errors.Is(err, errGone) && restarts < maxRestarts {
			restarts++
			err = r.reset()
		}
		if err != nil {
			return Result{}, err
		}
	}
	return Result{Meta: r.export.meta, Parts: r.part - 1, Bytes: r.bytes}, nil
}

func (r *Receiver) begin(ctx context.Context, call Call) error {
	answer, err := ask(ctx, call, request{op: opBegin})
	if err != nil {
		return err
	}
	export, err := decodeBegun(answer)
	if err != nil {
		return err
	}
	if err := r.options.Accept(export.meta, export.about); err != nil {
		return fmt.Errorf("refuse the export: %w", err)
	}
	export.meta = bytes.Clone(export.meta)
	r.export, r.opened = export, true
	return nil
}

func ask(ctx context.Context, call Call, r request) ([]byte, error) {
	answer, err := call(ctx, r.encode())
	if err != nil {
		return nil, fmt.Errorf("call the sender: %w", err)
	}
	if len(answer) > MaxResponseBytes {
		return nil, fmt.Errorf("%w: answer of %d bytes", ErrProtocol, len(answer))
	}
	return answer, nil
}

// fetchRange brings the next range of the part that is coming.
func (r *Receiver) fetchRange(ctx context.Context, call Call) error {
	answer, err := ask(ctx, call, request{op: opRead, id: r.export.id, part: uint32(r.part), offset: r.offset, limit: MaxRangeBytes})
	if err != nil {
		return err
	}
	p, err := decodePiece(answer)
	if err != nil {
		return err
	}
	if p.noMore {
		if r.name != "" || r.part == 1 {
			return fmt.Errorf("%w: the parts end with part %d", ErrProtocol, r.part)
		}
		r.finished = true
		// The sender closes the export by itself when this is lost.
		_, _ = ask(ctx, call, request{op: opEnd, id: r.export.id})
		return nil
	}
	if err := r.check(p); err != nil {
		return err
	}
	if err := r.store(p); err != nil {
		return err
	}
	if !p.last {
		return nil
	}
	return r.complete(p.sum)
}

// check holds a range against what came before it and against the limits.
func (r *Receiver) check(p piece) error {
	if r.name == "" {
		if err := r.admit(p); err != nil {
			return err
		}
	}
	end := r.offset + int64(len(p.data))
	switch {
	case p.name != r.name || p.size != r.size:
		return fmt.Errorf("%w: part %d was %s with %d bytes and is %s with %d", ErrProtocol, r.part, r.name, r.size, p.name, p.size)
	case len(p.data) > MaxRangeBytes || end > r.size || p.last != (end == r.size) || len(p.data) == 0 && !p.last:
		return fmt.Errorf("%w: range of %d bytes at %d of %s, which has %d", ErrProtocol, len(p.data), r.offset, r.name, r.size)
	}
	return nil
}

// admit takes in a new part.
func (r *Receiver) admit(p piece) error {
	if p.size > r.options.MaxPartBytes || p.size > r.options.MaxBytes-r.bytes || r.part > r.options.MaxParts {
		return fmt.Errorf("%w: part %d has %d bytes, %d have come; allowed are %d parts of %d bytes, together %d",
			ErrLimit, r.part, p.size, r.bytes, r.options.MaxParts, r.options.MaxPartBytes, r.options.MaxBytes)
	}
	if _, err := os.Lstat(r.path(p.name)); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: part %s comes twice (%v)", ErrProtocol, p.name, err)
	}
	r.name, r.size, r.offset, r.hash = p.name, p.size, 0, sha256.New()
	return nil
}

func (r *Receiver) path(name string) string { return filepath.Join(r.options.Dir, name) }

// store writes a range.
func (r *Receiver) store(p piece) error {
	if r.file == nil {
		file, err := os.OpenFile(r.path(r.name)+halfSuffix, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("write part: %w", err)
		}
		r.file = file
	}
	if _, err := r.file.WriteAt(p.data, r.offset); err != nil {
		return fmt.Errorf("write part: %w", err)
	}
	r.hash.Write(p.data)
	r.offset += int64(len(p.data))
	r.received.Store(r.bytes + r.offset)
	return nil
}

// complete gives a part its name, or begins it anew when it is damaged.
func (r *Receiver) complete(sum [32]byte) error {
	if found := [32]byte(r.hash.Sum(nil)); found != sum {
		r.offset = 0
		r.hash.Reset()
		if r.damaged++; r.damaged >= maxDamaged {
			r.damaged = 0
			return fmt.Errorf("%w: %s, %d times: SHA-256 %x, want %x", ErrDamaged, r.name, maxDamaged, found, sum)
		}
		return nil
	}
	if err := r.syncFile(); err != nil {
		return err
	}
	if err := os.Rename(r.path(r.name)+halfSuffix, r.path(r.name)); err != nil {
		return fmt.Errorf("complete part: %w", err)
	}
	r.bytes += r.size
	r.part++
	r.name, r.size, r.offset, r.hash, r.damaged = "", 0, 0, nil, 0
	return nil
}

func (r *Receiver) syncFile() error {
	if err := r.file.Sync(); err != nil {
		return fmt.Errorf("sync part: %w", err)
	}
	return r.closeFile()
}

func (r *Receiver) closeFile() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	if err != nil {
		return fmt.Errorf("close part: %w", err)
	}
	return nil
}
