package api

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"queen/httpfront/api/history"
	"queen/raftlog/command"
)

// The upper bounds of the histograms: seconds from the cost of one small entry to the patience of a client, sizes by
// powers of four.
var (
	stepSecondsBounds = []float64{
		0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30,
	}
	countBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}
	bytesBounds = []float64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}
)

// meters are the metrics of the write path (operations 3.4). It is the observer of the broker and of the log.
type meters struct {
	api *API
	set *metrics.Set
	// startedMicros tells what is applied again at the start from what is new.
	startedMicros uint64

	batchCommands, entryBytes, checkpointRows           *metrics.PrometheusHistogram
	queueWait, arrivalToProposed                        *metrics.PrometheusHistogram
	commit, logFlush, apply, storeWrite                 *metrics.PrometheusHistogram
	durablePoint, push, pop                             *metrics.PrometheusHistogram
	proposals, retainVisited, retainDue, retainedAppend *metrics.Counter

	timersFired  *metrics.Counter
	timerFireLag *metrics.PrometheusHistogram

	statesOpened, statesSent, statesInstalled *metrics.Counter
	stateBytesSent, stateBytesReceived        *metrics.Counter

	kv, locks operationMeters
}

func newMeters(a *API, started time.Time) *meters {
	set := metrics.NewSet()
	seconds := func(name string) *metrics.PrometheusHistogram {
		return set.NewPrometheusHistogramExt(name, stepSecondsBounds)
	}
	return &meters{
		api: a, set: set, startedMicros: uint64(started.UnixMicro()),
		batchCommands:     set.NewPrometheusHistogramExt("queen_raft_batch_commands", countBounds),
		entryBytes:        set.NewPrometheusHistogramExt("queen_raft_group_bytes", bytesBounds),
		checkpointRows:    set.NewPrometheusHistogramExt("queen_raft_checkpoint_rows", countBounds),
		queueWait:         seconds("queen_raft_queue_wait_seconds"),
		arrivalToProposed: seconds("queen_raft_arrival_to_proposed_seconds"),
		commit:            seconds("queen_raft_commit_seconds"),
		logFlush:          seconds("queen_raft_log_fsync_seconds"),
		apply:             seconds("queen_apply_seconds"),
		storeWrite:        seconds("queen_store_write_seconds"),
		durablePoint:      seconds("queen_raft_durable_point_seconds"),
		push:              seconds("queen_raft_push_h_total_seconds"),
		pop:               seconds("queen_raft_pop_h_total_seconds"),
		proposals:         set.NewCounter("queen_raft_proposals_total"),
		retainVisited:     set.NewCounter(`queen_raft_retention_scan{kind="visited"}`),
		retainDue:         set.NewCounter(`queen_raft_retention_scan{kind="due"}`),
		retainedAppend:    set.NewCounter(`queen_raft_retention_scan{kind="removed"}`),

		timersFired:  set.NewCounter("queen_timers_fired_total"),
		timerFireLag: set.NewPrometheusHistogramExt("queen_timers_fire_lag_seconds", fireLagBounds),

		statesOpened:       set.NewCounter(`queen_raft_snapshots_total{kind="built"}`),
		statesSent:         set.NewCounter(`queen_raft_snapshots_total{kind="sent"}`),
		statesInstalled:    set.NewCounter(`queen_raft_snapshots_total{kind="installed"}`),
		stateBytesSent:     set.NewCounter(`queen_raft_snapshot_bytes_total{kind="sent"}`),
		stateBytesReceived: set.NewCounter(`queen_raft_snapshot_bytes_total{kind="received"}`),

		kv:    operationMeters{set, "queen_kv_ops_total", "queen_kv_op_duration_milliseconds"},
		locks: operationMeters{set, "queen_locks_ops_total", "queen_locks_op_duration_milliseconds"},
	}
}

// PeerRefused counts a refused handshake with a node, 0 for one that is not known; the reason is one of cluster 2.4.
func (a *API) PeerRefused(node uint64, reason string) {
	a.meters.set.GetOrCreateCounter(fmt.Sprintf("queen_raft_peer_refused_total{peer=\"%d\",reason=%q}", node, reason)).Inc()
}

// MemberReturned counts a return of a member that this node, leading, has driven.
func (a *API) MemberReturned(node uint64) {
	a.meters.set.GetOrCreateCounter(fmt.Sprintf("queen_raft_rejoins_total{peer=\"%d\"}", node)).Inc()
}

// StateReceived counts bytes of another node's state that came here.
func (a *API) StateReceived(bytes int64) { a.meters.stateBytesReceived.AddInt64(bytes) }

// StateInstalled counts a state of another node that took the place of this node's.
func (a *API) StateInstalled() { a.meters.statesInstalled.Inc() }

// StateOpened implements raftlog.Observer.
func (m *meters) StateOpened() { m.statesOpened.Inc() }

// StateBytesSent implements raftlog.Observer.
func (m *meters) StateBytesSent(bytes int) { m.stateBytesSent.Add(bytes) }

// StateSent implements raftlog.Observer.
func (m *meters) StateSent() { m.statesSent.Inc() }

// CommandSlow implements raftlog.Observer.
func (m *meters) CommandSlow(name string, _ time.Duration) {
	m.set.GetOrCreateCounter(fmt.Sprintf("queen_raft_slow_commands_total{command=%q}", name)).Inc()
}

// CommandWaited implements raftlog.Observer.
func (m *meters) CommandWaited(waited time.Duration) { m.queueWait.Update(waited.Seconds()) }

// RequestProposed implements raftlog.Observer.
func (m *meters) RequestProposed(took time.Duration) { m.arrivalToProposed.Update(took.Seconds()) }

// EntryProposed implements raftlog.Observer.
func (m *meters) EntryProposed(commands, bytes int) {
	m.proposals.Inc()
	m.batchCommands.Update(float64(commands))
	m.entryBytes.Update(float64(bytes))
}

// EntryCommitted implements raftlog.Observer.
func (m *meters) EntryCommitted(took time.Duration) { m.commit.Update(took.Seconds()) }

// LogFlushed implements raftlog.Observer.
func (m *meters) LogFlushed(took time.Duration) { m.logFlush.Update(took.Seconds()) }

// EntryApplied implements actors.Observer.
func (m *meters) EntryApplied(took time.Duration) { m.apply.Update(took.Seconds()) }

// StoreWritten implements actors.Observer.
func (m *meters) StoreWritten(took time.Duration) { m.storeWrite.Update(took.Seconds()) }

// DurablePoint implements actors.Observer.
func (m *meters) DurablePoint(took time.Duration) { m.durablePoint.Update(took.Seconds()) }

// RetentionScanned implements actors.Observer.
func (m *meters) RetentionScanned(visited, due int) {
	m.retainVisited.Add(visited)
	m.retainDue.Add(due)
}

// Applied implements actors.Observer: what no handler of this node knows of.
func (m *meters) Applied(stampMicros uint64, c command.Command, result command.Result) {
	switch c := c.(type) {
	case command.Push:
		if pushed, ok := result.(*command.PushResult); ok {
			m.created(stampMicros, c.Tenant, c.Groups, pushed.Groups)
		}
	case command.Transaction:
		if done, ok := result.(*command.TransactionResult); ok && done.Reason == "" {
			m.created(stampMicros, c.Tenant, c.Pushes, done.Pushes)
			m.firedAtOnce(stampMicros, done.Timers)
		}
	case command.Ack:
		m.checkpointRows.Update(float64(len(c.Parts)))
	case command.Claim:
		if claimed, ok := result.(*command.ClaimResult); ok {
			m.checkpointRows.Update(float64(len(claimed.Batches)))
		}
	case command.Timers:
		if scheduled, ok := result.(*command.TimersResult); ok {
			m.firedAtOnce(stampMicros, scheduled.Ops)
		}
	case command.TimerFire:
		if fired, ok := result.(*command.TimerFireResult); ok {
			m.fired(stampMicros, fired)
		}
	case command.Retain:
		if retained, ok := result.(*command.RetainResult); ok {
			m.retained(stampMicros, &c, retained)
		}
	}
}

// created counts partitions: the first message ever stored in one has offset 0.
func (m *meters) created(stampMicros uint64, tenant command.Tenant, groups []command.PushGroup, results []command.PushGroupResult) {
	for i := range results {
		r := &results[i]
		if r.FirstOffset == 0 && r.Refusal == nil && int(groups[i].Count) > len(r.Duplicates) && stampMicros >= m.startedMicros {
			m.api.history.Changed(tenant, groups[i].Queue, history.PartitionsCreated, 1)
		}
	}
}

// retained counts what retention removed. One command is about partitions of one queue.
func (m *meters) retained(stampMicros uint64, c *command.Retain, result *command.RetainResult) {
	if stampMicros < m.startedMicros || len(c.Partitions) == 0 {
		return
	}
	m.retainedAppend.Add(int(result.Appends))
	if result.Messages == 0 {
		return
	}
	if queue := m.api.ownerOf(c.Partitions[0].Partition); queue != nil {
		m.api.history.Retained(queue.Tenant, queue.Name, result.Messages)
	}
}
