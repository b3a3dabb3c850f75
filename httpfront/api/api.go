package api

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"queen/actors"
	"queen/httpfront"
	"queen/httpfront/api/history"
	"queen/raftlog"
	"queen/raftlog/command"
)

// Config holds the settings that handlers depend on (cluster 1.2, 1.7).
type Config struct {
	// PushTimeout is POP_DEFAULT_TIMEOUT_MS, PopTimeout is DEFAULT_TIMEOUT or the former, WriteTimeout is
	// QUEEN_STMT_TIMEOUT_MS.
	PushTimeout, PopTimeout, WriteTimeout time.Duration
	// SubscribeAll is DEFAULT_SUBSCRIPTION_MODE=all.
	SubscribeAll bool
	// SizesMax is QUEEN_DASH_SIZES_MAX.
	SizesMax int
	// KV holds those of the KV store.
	KV KVConfig
	// Timers are the limits of timers.
	Timers TimerLimits
	// Version, ServerID and Port describe the node on console routes.
	Version  string
	ServerID string
	Port     int
	// Settings lists the settings of the node, secrets masked, in the JSON of cluster 1.1.8.
	Settings any
	// Cipher encrypts the payloads of queues that ask for it.
	Cipher Cipher
	// Membership answers the membership routes (cluster 4).
	Membership Membership
	// History counts and keeps rows over time; its owner closes it after the server has stopped.
	History *history.Recorder
	// GroupLagMaxCursors is QUEEN_METRICS_GROUP_LAG_MAX_CURSORS; SumTenants is QUEEN_METRICS_TENANT_LABEL=false.
	GroupLagMaxCursors int
	SumTenants         bool
}

// API are the handlers over one broker.
type API struct {
	config Config
	// current is the broker; another one takes its place when the state is installed anew.
	current atomic.Pointer[actors.Broker]
	cipher  Cipher
	gate    Gate
	node    Node
	stats   *Stats

	history *history.Recorder
	meters  *meters
	owners  owners
	depths  depths
	usage   *processUsage
	// pageBytes is shownMaxBytes; tests make it small.
	pageBytes uint64
	// hashing is set while a request reads the whole state.
	hashing atomic.Bool
	// connected is set once the broker is there: before that only early routes are served.
	connected atomic.Bool
}

// Cipher encrypts the payloads of queues that ask for it (messaging 4.5).
type Cipher interface {
	// Usable tells whether there is a key to encrypt with.
	Usable() bool
	// Seal returns the stored envelope of a payload.
	Seal(payload []byte) ([]byte, error)
	// Open returns the payload of a stored envelope; an error when no key fits.
	Open(envelope []byte) ([]byte, error)
}

// Gate tells whether growing writes are refused because a data volume is full (cluster 11.3).
type Gate interface {
	// Closed returns the refusal while the gate is closed, nil otherwise.
	Closed() *httpfront.Error
}

// New makes the handlers. They need a broker, see Connect, before any route but the early ones is served.
func New(config Config, node Node, gate Gate) *API {
	started := time.Now()
	a := &API{
		config: config, node: node, gate: gate, cipher: config.Cipher, stats: NewStats(started), history: config.History,
		owners: owners{queueIDs: map[uint64]uint64{}}, usage: newProcessUsage(started),
		pageBytes: shownMaxBytes,
	}
	a.meters = newMeters(a, started)
	return a
}

// Observer is told what the broker and the log do: give it to both before they start.
func (a *API) Observer() interface {
	actors.Observer
	raftlog.Observer
} {
	return a.meters
}

// Connect gives the handlers a broker, before the server opens its routes. The one before, if any, has been stopped.
func (a *API) Connect(broker *actors.Broker) {
	a.current.Store(broker)
	if !a.connected.Swap(true) {
		a.history.Start(a.describeNode)
	}
}

// broker is the state that requests are answered from.
func (a *API) broker() *actors.Broker { return a.current.Load() }

// fail answers with what an error of the broker means to a client.
func (a *API) fail(r *httpfront.Request, err error) {
	switch {
	case errors.Is(err, actors.ErrGone):
		r.Abandon()
	default:
		r.Fail(a.withLeader(refusalOf(err)))
	}
}

// withLeader adds the address of the leader to a refusal that another node may not give: 503 retry.
func (a *API) withLeader(err error) error {
	refusal, ok := errors.AsType[*httpfront.Error](err)
	if !ok || refusal.Code != httpfront.CodeRetry || refusal.Leader != "" {
		return err
	}
	with := *refusal
	with.Leader = a.node.Leader()
	return &with
}

// inDoubt is a handler of acks, nacks and dead-letter moves. When the deadline of one passes and the leader has changed meanwhile,
// nobody knows whether it happened: 503 outcome_unknown instead of timeout (cluster 8.4).
func (a *API) inDoubt(handle handler) handler {
	return func(r *httpfront.Request) error {
		before := a.node.LeaderChanges()
		err := handle(r)
		if errors.Is(err, actors.ErrDeadline) && a.node.LeaderChanges() != before {
			return httpfront.Refuse(httpfront.CodeOutcomeUnknown, "the leader changed before the outcome was known")
		}
		return err
	}
}

// refusalOf maps the errors of the broker to codes (messaging 2.7); any other error stays what it is.
func refusalOf(err error) error {
	for _, known := range []struct {
		err  error
		code httpfront.Code
	}{
		{actors.ErrDeadline, httpfront.CodeTimeout},
		{actors.ErrOverloaded, httpfront.CodeOverloaded},
		{actors.ErrNoQuorum, httpfront.CodeNoQuorum},
		{actors.ErrNoLeader, httpfront.CodeNoLeader},
		{actors.ErrRetry, httpfront.CodeRetry},
		{actors.ErrStopping, httpfront.CodeRetry},
		{actors.ErrTooLarge, httpfront.CodePayloadTooLarge},
	} {
		if errors.Is(err, known.err) {
			return httpfront.Refuse(known.code, known.err.Error())
		}
	}
	if actors.StorageFailed(err) {
		return httpfront.Refuse(httpfront.CodeRetry, "the storage of this node has failed")
	}
	return err
}

// span of a write: from its arrival to its deadline.
func (a *API) span(r *httpfront.Request, fallback time.Duration) (actors.Span, error) {
	deadline, err := a.deadline(r, fallback)
	return actors.Span{Arrived: r.Arrived, Deadline: deadline}, err
}

// deadline of a write: timeoutMs, else the default of its family (cluster 8.2).
func (a *API) deadline(r *httpfront.Request, fallback time.Duration) (time.Time, error) {
	ms, err := r.QueryTimeoutMs(fallback.Milliseconds())
	return r.Arrived.Add(time.Duration(ms) * time.Millisecond), err
}

const (
	// keyBudgetBytes bounds 36 for the tenant + the queue + the longer of partition and group (messaging 2.11).
	keyBudgetBytes = 447
	tenantBytes    = 36
)

// checkNames refuses names beyond the key budget.
func checkNames(queue, other string) error {
	if tenantBytes+len(queue)+len(other) > keyBudgetBytes {
		return httpfront.Refuse(httpfront.CodeNameTooLong,
			fmt.Sprintf("the names of queue and partition or group exceed %d bytes", keyBudgetBytes-tenantBytes))
	}
	return nil
}

// ackText is the text of a failed ack (messaging 6.6); empty for success.
func ackText(e command.AckError, partition uint64) string {
	if e == command.AckOK {
		return ""
	}
	return actors.AckErrorText(e, partition)
}

func isZero(id uuid.UUID) bool { return id == uuid.Nil }

// contextUntil is a context that ends at a deadline.
func contextUntil(deadline time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.Background(), deadline)
}
