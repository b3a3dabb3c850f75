package store

import "errors"

var (
	// ErrStopped says that the store has failed a write or was closed; nothing is written or read until it is opened again.
	ErrStopped = errors.New("store has stopped")
	// ErrCorrupt says that stored bytes do not match their checksum or are missing although something refers to them.
	// The wrapped text begins with the phrase that operators alert on (cluster.md 18).
	ErrCorrupt = errors.New("store checksum mismatch")
	// ErrDamaged says that Open refuses a directory because a file is missing, cut or unreadable; the text names it.
	ErrDamaged = errors.New("store directory is damaged")
	// ErrTooBig says that a batch does not fit into one atomic write. It is a bug of the layer above, which must split
	// before it proposes (MaxBatchKeys, MaxBatchBytes, MaxBlockBytes, MaxValueBytes).
	ErrTooBig = errors.New("batch exceeds the limits of one atomic write")
	// ErrNoSpace says that the volume has less free space than the store needs to write safely (cluster.md 11.4).
	ErrNoSpace = errors.New("no space left for the store")
	// ErrClosed says that a view or a batch was read after its end.
	ErrClosed = errors.New("view is closed")
	// ErrImport says that an export is not whole, or not what its manifest says; nothing of it is used.
	ErrImport = errors.New("export cannot be imported")
	// ErrMisuse says that a batch broke a rule of the accounting, such as releasing a chunk twice. It is a bug of the
	// layer above.
	ErrMisuse = errors.New("batch breaks a rule of the store")
)
