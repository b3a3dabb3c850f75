package actors

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"queen/actors/machine/kv"
	"queen/actors/machine/switches"
	"queen/raftlog/command"
	"queen/store"
)

// KVConfig is what the broker is told about the KV store.
type KVConfig struct {
	// SweepInterval is QUEEN_RAFT_KV_SWEEP_MS; 0 never sweeps. SweepRows is QUEEN_RAFT_KV_SWEEP_LIMIT, the rows of one step.
	SweepInterval time.Duration
	SweepRows     uint32
	// RefuseApply is QUEEN_TEST_REFUSE_APPLY_KV: namespace and key, with a slash between them.
	RefuseApply string
}

// refused is the row whose writes are apply failures.
func (c *KVConfig) refused() (at kvPlace) {
	at.namespace, at.key, _ = strings.Cut(c.RefuseApply, "/")
	return at
}

// ReadKV evaluates a call without writes on a linearizable view (state 2.6, 2.7). A *command.Refusal comes back as the error.
func (b *Broker) ReadKV(ctx context.Context, c *command.KV) (*command.KVResult, error) {
	return readRows[*command.KVResult](ctx, b, func(view *store.View, nowMicros uint64) (command.Result, error) {
		return kv.Read(view, c, nowMicros)
	})
}

// ReadLock evaluates a lock call that only asks.
func (b *Broker) ReadLock(ctx context.Context, c *command.Lock) (*command.LockResult, error) {
	return readRows[*command.LockResult](ctx, b, func(view *store.View, nowMicros uint64) (command.Result, error) {
		return kv.ReadLock(view, c, nowMicros)
	})
}

// viewKV is ViewAt while an operator leaves KV on; a refusal is the error otherwise (state 11.4).
func (b *Broker) viewKV(ctx context.Context) (view *store.View, nowMicros uint64, err error) {
	view, nowMicros, err = b.ViewAt(ctx)
	if err != nil {
		return nil, 0, err
	}
	refusal, err := switches.Refuse(view, command.SwitchKV)
	if refusal != nil {
		err = refusal
	}
	if err != nil {
		view.Close()
		return nil, 0, err
	}
	return view, nowMicros, nil
}

func readRows[R command.Result](ctx context.Context, b *Broker, read func(view *store.View, nowMicros uint64) (command.Result, error)) (result R, err error) {
	view, nowMicros, err := b.viewKV(ctx)
	if err != nil {
		return result, err
	}
	defer view.Close()
	found, err := read(view, nowMicros)
	if found, err = (outcome{found, err}).unpack(); err != nil {
		return result, err
	}
	return found.(R), nil
}

// KVNamespace is a namespace and the rows that are stored in it, expired ones included.
type KVNamespace struct {
	Name string
	Rows uint64
}

// KVNamespaces lists the namespaces of a tenant in the order of their bytes (state 2.11), as long as ctx lasts.
func (b *Broker) KVNamespaces(ctx context.Context, tenant uuid.UUID) (namespaces []KVNamespace, err error) {
	view, _, err := b.viewKV(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	err = kv.Namespaces(view, tenant, func(name string, rows uint64) bool {
		namespaces = append(namespaces, KVNamespace{name, rows})
		return len(namespaces)%scanSlice != 0 || ctx.Err() == nil
	})
	if ctx.Err() != nil {
		return nil, ErrDeadline
	}
	return namespaces, err
}

// ListKV reads a page of a namespace for a console (state 2.11). The instant of the page is filled in.
func (b *Broker) ListKV(ctx context.Context, in kv.ListInput) (*kv.Listed, error) {
	view, nowMicros, err := b.viewKV(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	in.NowMicros = nowMicros
	return kv.List(view, &in)
}

// KVUsage is what the tenants of this group have in the KV store, as applied here.
func (b *Broker) KVUsage() (kv.Usage, error) {
	view := b.store.View()
	defer view.Close()
	return kv.Total(view)
}

// runKVSweep removes rows that have expired in steps, while this node leads.
func (b *Broker) runKVSweep() {
	if b.config.KV.SweepInterval <= 0 {
		return
	}
	b.every(b.config.KV.SweepInterval, func() {
		for b.log.Leads() && b.stopped.Err() == nil && b.sweepKV() {
		}
	})
}

// sweepKV proposes one step when something is due; false ends the turn.
func (b *Broker) sweepKV() bool {
	due, err := b.kvDue()
	if err != nil {
		b.logger.Error().Str("target", "actors").Err(err).Msg("expired rows of the kv store could not be looked for")
		return false
	}
	if !due {
		return false
	}
	result, err := b.Execute(Until(time.Now().Add(backgroundDeadline)), &command.KVSweep{MaxRows: max(b.config.KV.SweepRows, 1)})
	if err != nil {
		return false
	}
	// A step that found no room in its entry is tried again with the next turn.
	swept := result.(*command.KVSweepResult)
	return swept.Removed > 0 && swept.More
}

func (b *Broker) kvDue() (bool, error) {
	view := b.store.View()
	defer view.Close()
	return kv.Due(view, b.log.Now())
}
