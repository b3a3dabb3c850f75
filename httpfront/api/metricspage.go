package api

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"queen/httpfront/api/history"
	"queen/raftlog/command"
)

// exposition writes samples in the text format of Prometheus.
type exposition struct{ buffer bytes.Buffer }

// label is one label of a sample.
type label struct{ name, value string }

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (e *exposition) sample(family string, value float64, labels ...label) {
	e.buffer.WriteString(family)
	for i, l := range labels {
		e.buffer.WriteByte("{,"[min(i, 1)])
		e.buffer.WriteString(l.name)
		e.buffer.WriteString(`="`)
		e.buffer.WriteString(labelEscapes.Replace(l.value))
		e.buffer.WriteByte('"')
	}
	if len(labels) > 0 {
		e.buffer.WriteByte('}')
	}
	e.buffer.WriteByte(' ')
	e.buffer.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	e.buffer.WriteByte('\n')
}

// queueLabels name a queue; series of the default tenant carry no tenant (operations 3.4).
func queueLabels(tenant command.Tenant, queue string, more ...label) []label {
	labels := append([]label{{"queue", queue}}, more...)
	if tenant != command.DefaultTenant {
		labels = append(labels, label{"tenant", tenant.String()})
	}
	return labels
}

// writeMetrics appends the families that are not those of the HTTP server to the page (operations 3.4).
func (a *API) writeMetrics(w io.Writer) {
	e := &exposition{}
	a.writeProcess(e)
	a.writeRaft(e)
	if a.connected.Load() {
		a.writeActors(e)
		a.writeRecent(e)
		a.writeDepths(e, time.Now())
	}
	// A scrape that is cut short is the scraper's to notice.
	_, _ = w.Write(e.buffer.Bytes())
	a.meters.set.WritePrometheus(w)
}

func (a *API) writeProcess(e *exposition) {
	h := a.node.Health()
	e.sample("queen_uptime_seconds", time.Since(a.stats.Started).Seconds())
	e.sample("queen_build_info", 1, label{"version", h.Version}, label{"kinds", strconv.Itoa(h.Kinds)})
	e.sample("queen_process_resident_memory_bytes", float64(residentBytes()))
	e.sample("queen_malloc_bytes", float64(liveHeapBytes()))
	e.sample("queen_event_loop_lag_avg_milliseconds", a.history.LatenessMs())
	e.sample("queen_disk_used_percent", h.DiskPercent)
	e.sample("queen_process_push_messages_total", float64(a.stats.PushMessages.Load()))
	e.sample("queen_process_pop_messages_total", float64(a.stats.PopMessages.Load()))
	e.sample("queen_process_ack_messages_total", float64(a.stats.AckMessages.Load()))
	e.sample("queen_process_push_requests_total", float64(a.stats.PushRequests.Load()))
	e.sample("queen_process_pop_requests_total", float64(a.stats.PopRequests.Load()))
	e.sample("queen_process_ack_requests_total", float64(a.stats.AckRequests.Load()))
	e.sample("queen_decrypt_failures_total", float64(a.stats.DecryptFailures.Load()))
}

func (a *API) writeRaft(e *exposition) {
	h := a.node.Health()
	s := &h.Status
	for _, index := range []struct {
		kind  string
		value uint64
	}{{"log", s.LastIndex}, {"committed", s.CommitIndex}, {"applied", s.AppliedIndex}, {"durable", s.DurableIndex}} {
		e.sample("queen_raft_index", float64(index.value), label{"kind", index.kind})
	}
	e.sample("queen_raft_term", float64(s.Term))
	e.sample("queen_raft_leader", oneIf(h.LeaderID != 0 && h.LeaderID == h.NodeID))
	e.sample("queen_raft_leader_changes_total", float64(s.LeaderChanges))
	if s.QuorumAckMs >= 0 {
		e.sample("queen_raft_quorum_ack_age_seconds", float64(s.QuorumAckMs)/1000)
	}
	if s.LastCommitMs >= 0 {
		e.sample("queen_raft_last_commit_age_seconds", float64(s.LastCommitMs)/1000)
	}
	e.sample("queen_raft_inflight", float64(s.InFlightEntries))
	e.sample("queen_raft_command_queue_depth", float64(s.WaitingCommands))
	e.sample("queen_raft_log_storage", float64(s.LogFiles), label{"kind", "files"})
	e.sample("queen_raft_log_storage", float64(s.LogBytes), label{"kind", "bytes"})
	e.sample("queen_raft_storage_full", oneIf(h.StorageFull))
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

func (a *API) writeActors(e *exposition) {
	system := a.broker.Actors()
	type row struct{ running, restarts, deepest float64 }
	rows := map[string]row{}
	var names []string
	for _, kind := range system.Kinds() {
		running, restarts, deepest := system.Counts(kind)
		rows[string(kind)] = row{float64(running), float64(restarts), float64(deepest)}
		names = append(names, string(kind))
	}
	for _, family := range []struct {
		name string
		of   func(row) float64
	}{
		{"queen_actors", func(r row) float64 { return r.running }},
		{"queen_actor_restarts_total", func(r row) float64 { return r.restarts }},
		{"queen_actor_mailbox_depth", func(r row) float64 { return r.deepest }},
	} {
		for _, name := range names {
			e.sample(family.name, family.of(rows[name]), label{"kind", name})
		}
	}
	e.sample("queen_consume_engine", rows["group"].running, label{"kind", "groups"})
	e.sample("queen_consume_engine", rows["partition"].running, label{"kind", "partitions"})
}

// writeRecent shows what the last minute had in each queue. A series falls silent with its queue.
func (a *API) writeRecent(e *exposition) {
	sums := map[queueKey]*history.Tally{}
	for _, recent := range a.history.LastMinute() {
		tallyIn(sums, queueKey{a.shownTenant(recent.Tenant), recent.Queue}).Add(&recent.Tally)
	}
	keys := sortedKeys(sums, compareQueues)
	for _, key := range keys {
		e.sample("queen_queue_conflated_per_minute", float64(sums[key].Counts[history.Conflated]), queueLabels(key.tenant, key.queue)...)
	}
	for _, key := range keys {
		if sums[key].Counts[history.PopMessages] == 0 {
			continue
		}
		average, longest := sums[key].Lag()
		e.sample("queen_queue_pop_lag_milliseconds", average, queueLabels(key.tenant, key.queue, label{"stat", "avg"})...)
		e.sample("queen_queue_pop_lag_milliseconds", longest, queueLabels(key.tenant, key.queue, label{"stat", "max"})...)
	}
}

func compareQueues(x, y queueKey) int {
	return cmp.Or(slices.Compare(x.tenant[:], y.tenant[:]), cmp.Compare(x.queue, y.queue))
}

func sortedKeys[K comparable, V any](values map[K]V, compare func(x, y K) int) []K {
	keys := make([]K, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compare)
	return keys
}

func (a *API) writeDepths(e *exposition, now time.Time) {
	found := a.depths.current(now, a.measureDepths)
	for _, key := range sortedKeys(found.deadLetters, compareQueues) {
		e.sample("queen_dlq_depth_by_queue", float64(found.deadLetters[key]), queueLabels(key.tenant, key.queue)...)
	}
	groups := sortedKeys(found.groups, func(x, y groupKey) int {
		return cmp.Or(compareQueues(x.queueKey, y.queueKey), cmp.Compare(x.group, y.group))
	})
	for _, key := range groups {
		e.sample("queen_consumer_group_lag", float64(found.groups[key].messages), queueLabels(key.tenant, key.queue, label{"group", key.group})...)
	}
	for _, key := range groups {
		e.sample("queen_consumer_group_lag_seconds", found.groups[key].seconds, queueLabels(key.tenant, key.queue, label{"group", key.group})...)
	}
	e.sample("queen_consumer_group_lag_complete", oneIf(found.complete))
	e.sample("queen_store_corruption_total", float64(found.store.Corruptions))
	missing := 0
	for _, queue := range a.broker.Directory().All() {
		if queue.Options.EncryptionEnabled && !a.cipher.Usable() {
			missing++
		}
	}
	e.sample("queen_encryption_missing_key_queues", float64(missing))
}
