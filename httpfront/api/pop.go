package api

import (
	"fmt"
	"time"

	"queen/actors"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// popDefaultBatch is the batch of a pop that names none (messaging 5.2).
const popDefaultBatch = 200

// popMaxPartitions caps partitions; popMaxTimeoutMs caps timeout.
const (
	popMaxPartitions = 64
	popMaxTimeoutMs  = 60_000
)

// popParameters are the parsed parameters of a pop.
type popParameters struct {
	actors.PopRequest
	conflation      bool
	askedConflation bool
	autopilot       bool
}

// popQueue and popPartition are the two queue routes (messaging 5.1).
func (a *API) popQueue(r *httpfront.Request) error { return a.pop(r, r.Param("queue"), "", false) }

func (a *API) popPartition(r *httpfront.Request) error {
	return a.pop(r, r.Param("queue"), r.Param("partition"), true)
}

func (a *API) pop(r *httpfront.Request, queue, partitionName string, pinned bool) error {
	p, err := a.popParameters(r, pinned)
	if err == nil {
		longer := p.Group
		if len(partitionName) > len(longer) {
			longer = partitionName
		}
		err = checkNames(queue, longer)
	}
	if err != nil {
		return err
	}
	p.Tenant, p.Queue, p.Pinned, p.Partition = r.Tenant, queue, pinned, partitionName
	if p.Wait {
		watch := r.WatchClient()
		defer watch.Close()
		p.Gone, p.IsGone = watch.C, watch.Gone
		a.history.Park(r.Tenant, queue, 1)
		defer a.history.Park(r.Tenant, queue, -1)
	}
	outcome, err := a.broker().Pop(&p.PopRequest)
	if err != nil {
		return err
	}
	return a.answerPop(r, p, queue, outcome)
}

// discover claims over all queues of a namespace or task (messaging 5.12).
func (a *API) discover(r *httpfront.Request) error {
	p, err := a.popParameters(r, false)
	if err != nil {
		return err
	}
	p.Wait, p.AutoBatch, p.AutoPartitions = false, false, false
	request := &actors.DiscoverRequest{}
	for name, field := range map[string]struct {
		value *string
		has   *bool
	}{"namespace": {&request.Namespace, &request.HasNamespace}, "task": {&request.Task, &request.HasTask}} {
		text, _, err := r.QueryText(name)
		if err != nil {
			return err
		}
		*field.value, *field.has = text, text != ""
	}
	if !request.HasNamespace && !request.HasTask {
		return httpfront.Refuse(httpfront.CodeBadRequest, "namespace or task is required")
	}
	if err := checkNames("", p.Group); err != nil {
		return err
	}
	p.Tenant = r.Tenant
	request.PopRequest = p.PopRequest
	request.Admit = func(queue string) error { return checkNames(queue, p.Group) }
	outcome, err := a.broker().Discover(request)
	if err != nil {
		return err
	}
	return a.answerPop(r, p, "", outcome)
}

func (a *API) popParameters(r *httpfront.Request, pinned bool) (*popParameters, error) {
	p := &popParameters{}
	steps := []func(*httpfront.Request, *popParameters) error{a.popSizes, a.popFlags, a.popTiming, a.popSubscription}
	for _, step := range steps {
		if err := step(r, p); err != nil {
			return nil, err
		}
	}
	if pinned {
		p.Partitions = 1
		p.AutoPartitions = false
		p.AutoBatch = false
	}
	if p.conflation {
		switch {
		case p.Group == command.QueueModeGroup:
			return nil, httpfront.Refuse(httpfront.CodeBadRequest, "conflation needs a named consumerGroup: conflation=true without consumerGroup")
		case p.CommitOnDelivery:
			return nil, httpfront.Refuse(httpfront.CodeBadRequest,
				"conflation cannot be combined with autoAck or commitOnDelivery: conflation=true needs a lease")
		}
	}
	p.Conflation, p.AskedConflation = p.conflation, p.askedConflation
	return p, nil
}

// popSizes reads batch, partitions and autopilot. With autopilot the server chooses what the request left unset.
func (a *API) popSizes(r *httpfront.Request, p *popParameters) error {
	batch, err := r.QueryPositive("batch", 0)
	if err != nil {
		return err
	}
	partitions, err := r.QueryInt("partitions", 0)
	if err != nil {
		return err
	}
	autopilot, _, err := r.QueryBool("autopilot")
	if err != nil {
		return err
	}
	conflation, asked, err := r.QueryBool("conflation")
	if err != nil {
		return err
	}
	_, partitionsSet, _ := r.QueryText("partitions")
	p.conflation, p.askedConflation = conflation, asked
	p.autopilot = autopilot
	p.Batch = uint64(batch)
	if batch == 0 {
		p.Batch = popDefaultBatch
	}
	if partitionsSet {
		p.Partitions = int(min(max(partitions, 1), popMaxPartitions))
	}
	p.AutoPartitions = autopilot && !partitionsSet
	p.AutoBatch = autopilot && batch == 0
	return nil
}

func (a *API) popFlags(r *httpfront.Request, p *popParameters) error {
	for _, name := range []string{"autoAck", "commitOnDelivery"} {
		set, _, err := r.QueryBool(name)
		if err != nil {
			return err
		}
		p.CommitOnDelivery = p.CommitOnDelivery || set
	}
	group, present, err := r.QueryText("consumerGroup")
	if err != nil {
		return err
	}
	p.Group = command.QueueModeGroup
	if present {
		p.Group = group
	}
	wait, _, err := r.QueryBool("wait")
	p.Wait = wait
	return err
}

func (a *API) popTiming(r *httpfront.Request, p *popParameters) error {
	ms, err := r.QueryInt("timeout", a.config.PopTimeout.Milliseconds())
	if err != nil {
		return err
	}
	if ms < 0 {
		return httpfront.Refuse(httpfront.CodeBadRequest, "timeout must not be negative")
	}
	if !p.Wait {
		ms = a.config.PopTimeout.Milliseconds()
	}
	p.Deadline = r.Arrived.Add(time.Duration(min(ms, popMaxTimeoutMs)) * time.Millisecond)
	seconds, err := r.QueryInt("leaseSeconds", 0)
	if err != nil {
		return err
	}
	p.LeaseMs = uint64(min(max(seconds, 0), wire.MaxLeaseSeconds)) * 1000
	return nil
}

// popSubscription reads where a group starts that is new to the queue (messaging 5.2, 5.8). subscriptionFrom wins.
func (a *API) popSubscription(r *httpfront.Request, p *popParameters) error {
	mode, present, err := r.QueryText("subscriptionMode")
	if err != nil {
		return err
	}
	switch {
	case !present && a.config.SubscribeAll:
		p.Subscription.Mode = command.SubscriptionAll
	case !present || mode == "new":
		p.Subscription.Mode = command.SubscriptionNew
	default:
		p.Subscription.Mode = command.SubscriptionAll
	}
	from, present, err := r.QueryText("subscriptionFrom")
	if err != nil || !present {
		return err
	}
	if from == "now" {
		p.Subscription = command.Subscription{Mode: command.SubscriptionNew}
	} else if micros, ok := wire.ParseTime(from); ok {
		p.Subscription = command.Subscription{Mode: command.SubscriptionTimestamp, InstantMicros: uint64(max(micros, 1))}
	}
	return nil
}

// answerPop reads the claimed messages from this node's store and answers.
func (a *API) answerPop(r *httpfront.Request, p *popParameters, queue string, outcome *actors.PopOutcome) error {
	answer := &wire.PopAnswer{Queue: queue, Group: p.Group, Lease: outcome.Lease, Conflation: outcome.Conflation || p.assumed(outcome)}
	answer.ConflationConflict = p.askedConflation && p.conflation != answer.Conflation
	if len(outcome.Batches) == 0 {
		a.stats.popped(0)
		a.countPop(r.Tenant, queue, nil, nil)
		if answer.Conflation || answer.ConflationConflict {
			r.JSONOwned(200, wire.NewPopWriter(nil, answer).End())
			return nil
		}
		r.NoContent()
		return nil
	}
	if p.autopilot && (outcome.AutoPartitions > 0 || outcome.AutoBatch > 0) {
		answer.Autopilot = &wire.Autopilot{Partitions: outcome.AutoPartitions, Batch: outcome.AutoBatch}
	}
	answer.Batches = make([]wire.PopBatch, len(outcome.Batches))
	for i := range outcome.Batches {
		claimed := &outcome.Batches[i]
		answer.Batches[i] = wire.PopBatch{PartitionID: claimed.Partition, Partition: claimed.PartitionName, Attempt: claimed.Attempt}
	}
	delivered, err := a.writeClaimed(r, answer, outcome.Batches)
	switch {
	case err != nil:
		a.broker().HandBack(&p.PopRequest, outcome)
		r.Ctx.Response.Reset()
		return fmt.Errorf("read claimed messages: %w", err)
	case p.clientGone(r):
		a.broker().HandBack(&p.PopRequest, outcome)
		r.Ctx.Response.ResetBody()
		r.Abandon()
	default:
		r.OnUndelivered(func(begun bool) {
			// Of a commit on delivery, what may have been received counts as delivered (messaging 5.6).
			if !begun || !p.CommitOnDelivery {
				a.broker().HandBack(&p.PopRequest, outcome)
			}
		})
		a.stats.popped(a.countPop(r.Tenant, queue, outcome.Batches, delivered))
		a.meters.pop.Update((time.Since(r.Arrived) - outcome.Waited).Seconds())
	}
	return nil
}

// clientGone tells whether anybody is there to receive the answer (messaging 5.5.9). A pop that waits is watched all the
// time, but what the watch sees comes with a delay: a look right before the answer misses nothing that the kernel knows.
func (p *popParameters) clientGone(r *httpfront.Request) bool {
	return p.IsGone != nil && p.IsGone() || r.ClientGone()
}

// assumed answers for a group that could not be registered because its queue is missing: as a conflating group would be
// (messaging 5.9).
func (p *popParameters) assumed(outcome *actors.PopOutcome) bool {
	return p.conflation && !outcome.Registered
}

// open decrypts a stored payload; what no key fits is handed out as it is stored (state 8.4).
func (a *API) open(envelope []byte) (payload []byte, failed bool) {
	payload, err := a.cipher.Open(envelope)
	if err != nil {
		a.stats.decryptFailed()
		return envelope, true
	}
	return payload, false
}
