package timer

import (
	"encoding/base64"
	"math"
	"unicode/utf8"

	"github.com/google/uuid"

	"queen/actors/machine/deadletter"
	"queen/raftlog/command"
)

// FireInput is a fire of planned timers (state 3.6).
type FireInput struct {
	// StampMicros is that of the command: what is due is judged at it, and pauses count from it.
	StampMicros uint64
	Backoff     command.TimerBackoff
	Timers      []command.PlannedTimer
	// Firing tells whether timers fire at all (state 11.1). While they do not, nothing happens to them.
	Firing bool
	// Encrypts tells of each timer whether its queue encrypts at this point of the log; nil when none does.
	Encrypts []bool
	// Fits tells whether the entry has room for so much, which no estimate has foreseen: for rows of timers that are put off,
	// and for dead letters with what they take.
	Fits func(keys, bytes, chunkBytes int) bool
}

// FireOutput says what became of the timers, and what is to be appended and filed in the same entry.
type FireOutput struct {
	Result  *command.TimerFireResult
	Appends []Append
	Letters []Letter
}

// Group is the group under which dead letters of timers are filed (state 3.6).
const Group = "__timer__"

// letterOffset is above every offset that a log reaches, so that no message is taken for one that is dead, and low enough that a
// client that reads numbers of JSON as floating point tells two letters apart.
const letterOffset = 1 << 52

// maxLetterBytes is how much of a compressed payload a dead letter keeps. The text of the largest payload that an entry carries
// would not fit the chunks of one, and a timer that can neither fire nor be filed would stand in front of all others for ever.
const maxLetterBytes = 36 << 20

// Letter is a dead letter to file in the queue and the partition of a timer, which are made where they are missing.
type Letter struct {
	Tenant    uuid.UUID
	Queue     string
	Partition string
	// Offset stands for the place that the message never had in a log; no other dead letter of a timer has it.
	Offset     uint64
	Txid       string
	Error      string
	RetryCount uint32
	// CreatedMicros is when the timer was scheduled.
	CreatedMicros uint64
	// Message is the message in its stored form. The payload of a compressed timer is its bytes in base64, as a JSON string:
	// what readers are shown has to be JSON. What lies beyond maxLetterBytes is cut off.
	Message []byte
}

// Fire fires the planned timers that are pending, unchanged and due, and puts off or gives up those that cannot fire. All others
// stay as they are.
func (m *Machine) Fire(r Reader, w Writer, in *FireInput) (FireOutput, error) {
	f := &fire{Machine: m, r: r, w: w, in: in}
	f.out.Result = &command.TimerFireResult{Timers: make([]command.TimerFireOutcome, len(in.Timers))}
	for i := range in.Timers {
		if !in.Firing {
			f.out.Result.Timers[i].Fate = command.TimerPaused
			continue
		}
		planned := &in.Timers[i]
		row, err := find(r, planned.Tenant, planned.Queue, planned.Key)
		if err != nil {
			return FireOutput{}, err
		}
		outcome := &f.out.Result.Timers[i]
		if outcome.Fate = f.fate(i, row); outcome.Fate != 0 {
			continue
		}
		if planned.Failure == command.TimerFires {
			*outcome = f.fire(i, row)
			continue
		}
		if outcome.Fate, err = f.fail(planned, row); err != nil {
			return FireOutput{}, err
		}
	}
	f.out.Appends = f.fired.list
	if !f.changed {
		return f.out, nil
	}
	return f.out, m.settle(r, w, &f.tally)
}

// fire is a Fire in execution.
type fire struct {
	*Machine
	r       Reader
	w       Writer
	in      *FireInput
	out     FireOutput
	tally   tally
	fired   appends
	changed bool
}

// fate is why a planned timer is left alone; 0 when it is not.
func (f *fire) fate(item int, row *Row) command.TimerFate {
	planned := &f.in.Timers[item]
	switch {
	case row == nil:
		return command.TimerGone
	case row.Number != planned.Number:
		return command.TimerChanged
	case row.DueMicros > f.in.StampMicros:
		return command.TimerEarly
	case planned.Failure == command.TimerFires && !planned.Encrypted && f.in.Encrypts != nil && f.in.Encrypts[item]:
		return command.TimerInClear
	default:
		return 0
	}
}

func (f *fire) fire(item int, row *Row) command.TimerFireOutcome {
	planned := &f.in.Timers[item]
	f.fired.add(item, row, planned.Payload, planned.Encrypted)
	f.remove(f.w, &f.tally, row)
	f.changed = true
	// The row is due, so its deliverAt is not above the stamp.
	return command.TimerFireOutcome{Fate: command.TimerFired, LagMicros: f.in.StampMicros - uint64(row.DeliverMicros)}
}

// fail puts a timer off, or gives it up after its last permanent failure.
func (f *fire) fail(planned *command.PlannedTimer, row *Row) (command.TimerFate, error) {
	row.LastError = cut(planned.Reason)
	pauseMs := f.in.Backoff.TransientMs
	if planned.Failure == command.TimerPermanent {
		row.Attempts += min(1, math.MaxUint32-row.Attempts)
		if row.Attempts >= f.in.Backoff.MaxAttempts {
			return f.giveUp(row)
		}
		pauseMs = pauseAfter(row.Attempts, f.in.Backoff)
	}
	if !f.in.Fits(Keys, row.bytes(), 0) {
		return command.TimerNoRoom, nil
	}
	f.changed = true
	f.unplace(f.w, row)
	row.Number, row.UpdatedMicros = f.nextNumber(), f.in.StampMicros
	row.DueMicros = f.in.StampMicros + uint64(pauseMs)*1000
	f.write(f.w, row)
	return command.TimerPutOff, nil
}

// pauseAfter is how long a timer waits after so many permanent failures: the shortest pause, doubled with each, up to the
// longest.
func pauseAfter(attempts uint32, b command.TimerBackoff) uint32 {
	pause := uint64(b.MinMs)
	for range attempts - 1 {
		if pause *= 2; pause >= uint64(b.MaxMs) {
			break
		}
	}
	return uint32(min(pause, uint64(b.MaxMs)))
}

// giveUp makes a timer a dead letter.
func (f *fire) giveUp(row *Row) (command.TimerFate, error) {
	payload, err := row.Payload(f.r)
	if err != nil {
		return 0, err
	}
	if row.Zstd {
		payload = asText(payload[:min(len(payload), maxLetterBytes)])
	}
	// What could not be decompressed is no envelope, whatever the flag of the client says: nobody tries to open the text.
	message := command.AppendMessage(nil, row.message(payload, row.Encrypted && !row.Zstd))
	if !f.in.Fits(Keys+deadletter.Rows, RowBytes+deadletter.RowBytes(len(row.LastError), len(row.Txid)), len(message)) {
		return command.TimerNoRoom, nil
	}
	f.changed = true
	f.remove(f.w, &f.tally, row)
	f.out.Letters = append(f.out.Letters, Letter{
		Tenant: row.Tenant, Queue: row.Queue, Partition: row.Partition, Offset: letterOffset + row.Number, Txid: row.Txid,
		Error: row.LastError, RetryCount: row.Attempts, CreatedMicros: row.CreatedMicros, Message: message,
	})
	return command.TimerDead, nil
}

// cut shortens a reason to what is kept, at a character's boundary.
func cut(text string) string {
	if len(text) <= maxReasonBytes {
		return text
	}
	end := maxReasonBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// asText is a JSON string of bytes in base64.
func asText(payload []byte) []byte {
	text := base64.StdEncoding.AppendEncode([]byte{'"'}, payload)
	return append(text, '"')
}
