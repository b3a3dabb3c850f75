package actors

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// Kind names a kind of actor in metrics and log lines (operations 3.4).
type Kind string

// The kinds of this build.
const (
	KindApply       Kind = "apply"
	KindCatalog     Kind = "catalog"
	KindPartition   Kind = "partition"
	KindGroup       Kind = "group"
	KindLeases      Kind = "leases"
	KindDeadLetters Kind = "dead_letters"
	KindTraces      Kind = "traces"
	KindKV          Kind = "kv"
	KindTimers      Kind = "timers"
)

var kinds = [...]Kind{
	KindApply, KindCatalog, KindPartition, KindGroup, KindLeases, KindDeadLetters, KindTraces, KindKV, KindTimers,
}

// Behavior is what an actor does with one message. The same Receive serves messages from the mailbox and inline calls,
// never two at once.
type Behavior interface {
	Receive(message any)
}

// Closer is a Behavior that has callers waiting: Close answers them when the actor is re-made or stopped.
type Closer interface {
	Close()
}

// loser is a message whose sender waits for an answer: lost gives it one when the actor died over it or is gone.
type loser interface {
	lost()
}

// ErrCrashed is returned by an inline call whose actor panicked. The actor has forgotten everything and loads its state
// again with the next message.
var ErrCrashed = errors.New("actor panicked and was re-made")

// errStopped is returned by an inline call to an actor that its owner has taken out of memory in between: ask the owner
// for it again.
var errStopped = errors.New("actor has been passivated")

// retire is the last message of an actor's mailbox.
type retire struct{}

// System is a thin wrapper around protoactor, which has defects that must not be met (see DESIGN.md): nobody sends by
// name, panics are recovered in our own receive, and only the owner of a handle stops it.
type System struct {
	actors   *actor.ActorSystem
	log      zerolog.Logger
	running  map[Kind]*atomic.Int64
	restarts map[Kind]*atomic.Uint64
	deepest  map[Kind]*atomic.Int64
	chaos    chaos
}

// NewSystem starts an actor system without network, metrics provider or loggers of its own.
func NewSystem(log zerolog.Logger) *System {
	s := &System{
		log:      log,
		running:  map[Kind]*atomic.Int64{},
		restarts: map[Kind]*atomic.Uint64{},
		deepest:  map[Kind]*atomic.Int64{},
	}
	for _, kind := range kinds {
		s.running[kind], s.restarts[kind], s.deepest[kind] = new(atomic.Int64), new(atomic.Uint64), new(atomic.Int64)
	}
	// What is sent to an actor that is gone is advice and may be lost. The library counts it with a goroutine that sleeps
	// as long as its throttle says.
	s.actors = actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	return s
}

// Counts reports the actors of a kind: running now, restarted since the start, messages in its deepest mailbox.
func (s *System) Counts(kind Kind) (running int64, restarts uint64, deepest int64) {
	return s.running[kind].Load(), s.restarts[kind].Load(), s.deepest[kind].Load()
}

// Kinds lists the kinds that Counts knows.
func (s *System) Kinds() []Kind { return kinds[:] }

// Stop ends the system. The owners have stopped their actors before.
func (s *System) Stop() { s.actors.Shutdown() }

// Handle is the owner's grip on one actor.
type Handle struct {
	kind   Kind
	system *System
	make   func() Behavior
	pid    *actor.PID
	queued atomic.Int64

	// run is the actor's turn: whoever holds it runs the behavior, be it the mailbox or an inline call. It is never held
	// while another actor's is taken, except by the apply actor, which holds one at a time.
	run      sync.Mutex
	behavior Behavior
	stopped  bool

	// used is the clock hand's mark, set and cleared by the owner.
	used bool
}

// Spawn makes an actor. make is called for the first behavior and again after every panic; it must not fail: whatever
// the behavior needs of the store it loads with its first message.
func (s *System) Spawn(kind Kind, make func() Behavior) *Handle {
	h := &Handle{kind: kind, system: s, make: make, behavior: make()}
	props := actor.PropsFromFunc(func(ctx actor.Context) {
		switch message := ctx.Message().(type) {
		case actor.SystemMessage, actor.AutoReceiveMessage, *actor.Started:
		case retire:
			h.close()
			ctx.Stop(ctx.Self())
		default:
			h.queued.Add(-1)
			if err := h.receive(message); err != nil {
				if waits, ok := message.(loser); ok {
					waits.lost()
				}
			}
		}
	}, actor.WithMailbox(actor.UnboundedLockfree()))
	h.pid = s.actors.Root.Spawn(props)
	s.running[kind].Add(1)
	return h
}

// Tell puts a message into the mailbox. Any goroutine. Senders bound what they send: a pop per parked request, one wake-up
// per entry, one tick at a time.
func (h *Handle) Tell(message any) {
	depth := h.queued.Add(1)
	if deepest := h.system.deepest[h.kind]; depth > deepest.Load() {
		deepest.Store(depth)
	}
	h.system.actors.Root.Send(h.pid, message)
}

// Call runs the behavior in the calling goroutine, through the same receive as the mailbox. It is what makes an entry
// that touches few actors cheap: no wake-up. ErrCrashed means that the actor has no memory of the message.
func (h *Handle) Call(message any) error { return h.receive(message) }

func (h *Handle) receive(message any) (err error) {
	h.run.Lock()
	defer h.run.Unlock()
	if h.stopped {
		return errStopped
	}
	defer func() {
		if cause := recover(); cause != nil {
			h.remake(cause)
			err = fmt.Errorf("%s actor: %w: %v", h.kind, ErrCrashed, cause)
		}
	}()
	h.system.chaos.point(h.kind)
	h.behavior.Receive(message)
	h.system.chaos.point(h.kind)
	return nil
}

// remake replaces the behavior. The caller holds run.
func (h *Handle) remake(cause any) {
	h.system.restarts[h.kind].Add(1)
	h.system.log.Warn().Str("target", "actors").Str("kind", string(h.kind)).Interface("cause", cause).
		Bytes("stack", debug.Stack()).Msg("actor restarted kind=" + string(h.kind))
	h.reset()
}

// Reset makes the actor forget everything, as after a panic. The apply actor does it to every actor that a rolled back
// command had touched.
func (h *Handle) Reset() {
	h.run.Lock()
	defer h.run.Unlock()
	if !h.stopped {
		h.reset()
	}
}

func (h *Handle) reset() {
	if closer, ok := h.behavior.(Closer); ok {
		closer.Close()
	}
	h.behavior = h.make()
}

// Become gives the actor to another behavior, which make makes from now on. Only for an owner that is also the only
// sender: what is in the mailbox would reach the new behavior.
func (h *Handle) Become(make func() Behavior) {
	h.run.Lock()
	defer h.run.Unlock()
	h.make = make
	h.reset()
}

// Stop ends the actor at once. Only for an owner that is also the only sender: what is in the mailbox is lost.
func (h *Handle) Stop() {
	h.close()
	h.system.actors.Root.Stop(h.pid)
}

// Retire ends the actor after it has received everything that is in its mailbox. The owner has taken it out of reach of
// new senders before.
func (h *Handle) Retire() { h.system.actors.Root.Send(h.pid, retire{}) }

func (h *Handle) close() {
	h.run.Lock()
	defer h.run.Unlock()
	if h.stopped {
		return
	}
	h.stopped = true
	if closer, ok := h.behavior.(Closer); ok {
		closer.Close()
	}
	h.behavior = nil
	h.system.running[h.kind].Add(-1)
}
