package api

import (
	"context"
	"sync"
	"time"

	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/query"
	"queen/raftlog/command"
)

// depths are the gauges that come from the replicated state and cost a walk over it. They are computed when somebody looks
// at the page, and not again before depthsLeast has passed, or depthsShare times as long as the last walk took.
type depths struct {
	mu    sync.Mutex
	next  time.Time
	found *depthGauges
}

const (
	depthsLeast = 5 * time.Second
	depthsShare = 20
	// depthsDeadline bounds one walk; what was found until then is shown, marked as incomplete.
	depthsDeadline = 5 * time.Second
)

type queueKey struct {
	tenant command.Tenant
	queue  string
}

type groupKey struct {
	queueKey
	group string
}

type groupGauges struct {
	messages uint64
	seconds  float64
}

// depthGauges is one walk.
type depthGauges struct {
	deadLetters map[queueKey]uint64
	groups      map[groupKey]groupGauges
	complete    bool
	store       actors.StoreUsage
}

// current returns the newest walk, after a new one when it is time. Concurrent callers wait for the same walk.
func (d *depths) current(now time.Time, walk func() *depthGauges) *depthGauges {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found == nil || !now.Before(d.next) {
		began := time.Now()
		d.found = walk()
		took := time.Since(began)
		d.next = now.Add(max(depthsLeast, depthsShare*took))
	}
	return d.found
}

// measureDepths walks over dead letters and cursors of all tenants, in the state that is applied here.
func (a *API) measureDepths() *depthGauges {
	ctx, cancel := context.WithTimeout(context.Background(), depthsDeadline)
	defer cancel()
	view := a.broker().LocalView()
	defer view.Close()
	q := query.New(ctx, view, a.broker().Now(), a.broker().Holds())
	found := &depthGauges{
		deadLetters: map[queueKey]uint64{}, groups: map[groupKey]groupGauges{}, complete: true, store: a.broker().StoreUsage(),
	}
	budget := a.config.GroupLagMaxCursors
	for _, queue := range a.broker().Directory().All() {
		key := queueKey{a.shownTenant(queue.Tenant), queue.Name}
		letters, err := q.CountDeadLetters(queue.ID)
		if err != nil {
			found.complete = false
			return found
		}
		found.deadLetters[key] += letters
		for _, group := range queue.Groups {
			if !a.measureGroup(q, queue, group, found, &budget) {
				found.complete = false
			}
		}
	}
	return found
}

// measureGroup adds one group; false when it could not be measured to the end.
func (a *API) measureGroup(q *query.Reads, queue *actors.QueueView, group *catalog.Group, found *depthGauges, budget *int) bool {
	if *budget < 0 {
		return false
	}
	lag, err := q.Lag(queue, group, budget)
	if err != nil || *budget < 0 {
		return false
	}
	key := groupKey{queueKey{a.shownTenant(queue.Tenant), queue.Name}, group.Name}
	sum := found.groups[key]
	sum.messages += lag.Messages
	sum.seconds = max(sum.seconds, lagSeconds(q.Now(), lag.OldestMicros))
	found.groups[key] = sum
	return true
}

// shownTenant is the tenant under which series are shown: all are one when their label is off.
func (a *API) shownTenant(tenant command.Tenant) command.Tenant {
	if a.config.SumTenants {
		return command.DefaultTenant
	}
	return tenant
}
