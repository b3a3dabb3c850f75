package actors

import (
	"time"

	"queen/actors/inflate"
	"queen/actors/machine/timer"
	"queen/raftlog/command"
)

// TimersConfig is how a node fires timers while it leads (cluster 1.9).
type TimersConfig struct {
	// Tick is QUEEN_RAFT_TIMER_TICK_MS; 0 never fires. Batch and MaxBytes are how much fires with one tick.
	Tick     time.Duration
	Batch    int
	MaxBytes int
	// Backoff is how a refused fire is put off.
	Backoff command.TimerBackoff
	// MaxPayloadBytes bounds what a payload may expand to: a body, and what one log entry can carry.
	MaxPayloadBytes int
	// Sealer encrypts for queues that ask for it; nil when this node has no key.
	Sealer Sealer
}

// Sealer encrypts payloads (state 8). It is called from a goroutine of the broker.
type Sealer interface {
	// Usable tells whether there is a key to encrypt with.
	Usable() bool
	// Seal returns the stored envelope of a payload.
	Seal(payload []byte) ([]byte, error)
}

// firedAtOnce is how many timers one command fires at most, whatever the settings say: by their estimates more do not fit an
// entry.
const firedAtOnce = MaxEntryStateBytes * 3 / 4 / fireBytes

// fireDeadline is how long a fire may take before another one is planned. Should it be applied after all, it finds its timers
// changed.
const fireDeadline = 5 * time.Second

// runTimers fires what is due with every tick, while this node leads. One fire is on its way at a time.
func (b *Broker) runTimers() {
	if b.config.Timers.Tick <= 0 {
		return
	}
	b.every(b.config.Timers.Tick, func() {
		if !b.log.Leads() || b.SwitchedOff().Has(command.SwitchTimersFire) {
			return
		}
		fire, err := b.planFire()
		if err != nil {
			b.logger.Error().Str("target", "actors").Err(err).Msg("timers that are due could not be read")
		}
		if fire != nil {
			// What was not done is planned again with the next tick.
			_, _ = b.Execute(Until(time.Now().Add(fireDeadline)), fire)
		}
	})
}

// planFire prepares the timers that are due; nil when none is. Everything that apply must not do is done here: payloads are
// decompressed, checked and encrypted.
func (b *Broker) planFire() (*command.TimerFire, error) {
	view := b.store.View()
	defer view.Close()
	c := &b.config.Timers
	due, _, err := timer.PlanDue(view, b.log.Now(), timer.Limits{Timers: min(c.Batch, firedAtOnce), Bytes: min(c.MaxBytes, c.MaxPayloadBytes)})
	if err != nil || len(due) == 0 {
		return nil, err
	}
	fire := &command.TimerFire{Backoff: c.Backoff}
	bytes := 0
	for i := range due {
		planned := b.planTimer(&due[i])
		bytes += len(planned.Payload) + len(due[i].Txid)
		if i > 0 && bytes > min(c.MaxBytes, c.MaxPayloadBytes) {
			break
		}
		fire.Timers = append(fire.Timers, planned)
	}
	return fire, nil
}

// planTimer prepares one timer.
func (b *Broker) planTimer(due *timer.Due) command.PlannedTimer {
	c := &b.config.Timers
	planned := due.Planned()
	fail := func(failure command.TimerFailure, reason string) command.PlannedTimer {
		planned.Payload, planned.Encrypted, planned.Failure, planned.Reason = nil, false, failure, reason
		return planned
	}
	planned.Payload, planned.Encrypted = due.Stored, due.Encrypted
	if due.Zstd {
		plain, err := inflate.JSON(due.Stored, c.MaxPayloadBytes)
		if err != nil {
			return fail(command.TimerPermanent, err.Error())
		}
		planned.Payload = plain
	}
	queue := b.directory.Queue(due.Tenant, due.Queue)
	if queue != nil && queue.Options.EncryptionEnabled && !planned.Encrypted {
		if c.Sealer == nil || !c.Sealer.Usable() {
			return fail(command.TimerTransient, "the queue encrypts and the node has no usable key")
		}
		sealed, err := c.Sealer.Seal(planned.Payload)
		if err != nil {
			return fail(command.TimerTransient, "the payload could not be encrypted")
		}
		planned.Payload, planned.Encrypted = sealed, true
	}
	if len(planned.Payload) > c.MaxPayloadBytes {
		return fail(command.TimerPermanent, "the message is larger than one log entry")
	}
	return planned
}

// Timers is what is pending in all, as applied here.
func (b *Broker) Timers() (timer.Usage, error) {
	view := b.store.View()
	defer view.Close()
	return timer.Total(view)
}
