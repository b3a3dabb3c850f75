package transfer

import "errors"

var (
	// ErrBusy says that the sender serves as many exports as it may: ask again later.
	ErrBusy = errors.New("sender has no room for another export")
	// ErrSender says that the sender cannot read the state.
	ErrSender = errors.New("sender cannot read its state")
	// ErrProtocol says that the other side does not speak this protocol, or wants what must not be.
	ErrProtocol = errors.New("transfer protocol violated")
	// ErrDamaged says that a part came damaged again and again.
	ErrDamaged = errors.New("part comes damaged")
	// ErrLimit says that the export is larger than the receiver allows.
	ErrLimit = errors.New("export exceeds the limits of the receiver")

	errGone = errors.New("sender has no such export")
)
