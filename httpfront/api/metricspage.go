package api

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"queen/httpfront/api/history"
	"queen/raftlog/command"
)

// exposition writes samples in the text format of Prometheus.
type exposition struct {
	buffer    bytes.Buffer
	truncated []truncation
}

// truncation says how many series of a family are not on the page.
type truncation struct {
	family  string
	dropped int
}

// label is one label of a sample.
type label struct{ name, value string }

// escapeLabel is the value of a label in the text format, which knows three escapes. Other control characters, which a name
// may contain and no reader of the page expects, are shown by their pictures, U+2400 to U+2421.
func escapeLabel(value string) string {
	plain := func(c rune) bool { return c >= ' ' && c != '"' && c != '\\' && c != 0x7f }
	if strings.IndexFunc(value, func(c rune) bool { return !plain(c) }) < 0 && utf8.ValidString(value) {
		return value
	}
	var escaped strings.Builder
	for _, c := range value { // what is not UTF-8 becomes U+FFFD
		switch {
		case plain(c):
			escaped.WriteRune(c)
		case c == '\n':
			escaped.WriteString(`\n`)
		case c < ' ':
			escaped.WriteRune(0x2400 + c)
		case c == 0x7f:
			escaped.WriteRune(0x2421)
		default:
			escaped.WriteByte('\\')
			escaped.WriteRune(c)
		}
	}
	return escaped.String()
}

func (e *exposition) sample(family string, value float64, labels ...label) {
	e.buffer.WriteString(family)
	for i, l := range labels {
		e.buffer.WriteByte("{,"[min(i, 1)])
		e.buffer.WriteString(l.name)
		e.buffer.WriteString(`="`)
		e.buffer.WriteString(escapeLabel(l.value))
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
		a.writeStore(e)
		a.writeRecent(e)
		a.writeDepths(e, time.Now())
	}
	for _, t := range e.truncated {
		e.sample("queen_metrics_truncated_series", float64(t.dropped), label{"family", t.family})
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
	for _, forwarded := range []struct {
		kind  string
		count uint64
	}{{"sent", s.Forwarded.Sent}, {"served", s.Forwarded.Served}, {"streams_opened", s.Forwarded.StreamsOpened}} {
		e.sample("queen_raft_forward_total", float64(forwarded.count), label{"kind", forwarded.kind})
	}
	for _, verdict := range identities {
		e.sample("queen_raft_identity", oneIf(h.Identity == verdict), label{"state", verdict})
	}
	for _, peer := range a.node.Peers() {
		if peer.ClockSkewMs != nil {
			e.sample("queen_raft_peer_clock_skew_seconds", *peer.ClockSkewMs/1000, label{"peer", strconv.FormatUint(peer.NodeID, 10)})
		}
	}
}

// identities are the verdicts that a node may be under (cluster 7.1).
var identities = []string{"ok", "joining", "removed", "replaced", "rolled_back", "superseded", "foreign", "too_old"}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

func (a *API) writeActors(e *exposition) {
	system := a.broker().Actors()
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
	loaded, unloaded, byClaims := a.broker().PartitionLoads()
	e.sample("queen_consume_parts_total", float64(loaded), label{"kind", "loaded"})
	e.sample("queen_consume_parts_total", float64(unloaded), label{"kind", "unloaded"})
	e.sample("queen_consume_cold_claims_total", float64(byClaims))
}

func (a *API) writeStore(e *exposition) {
	operations := a.broker().StoreOperations()
	for _, asked := range []struct {
		kind  string
		count uint64
	}{{"get", operations.Gets}, {"put", operations.Puts}, {"delete", operations.Deletes}, {"seek", operations.Seeks}} {
		e.sample("queen_raft_store_operations_total", float64(asked.count), label{"kind", asked.kind})
	}
	if stored, err := a.broker().Traces(); err == nil { // a store that cannot be read says so elsewhere
		e.sample("queen_raft_traces_stored", float64(stored))
	}
	if stored, err := a.broker().KVUsage(); err == nil {
		e.sample("queen_kv_bytes_total", float64(stored.Bytes))
	}
	if timers, err := a.broker().Timers(); err == nil {
		e.sample("queen_timers_pending", float64(timers.Pending))
	}
}

// writeRecent shows what the last minute had in each queue. A series falls silent with its queue.
func (a *API) writeRecent(e *exposition) {
	sums := map[queueKey]*history.Tally{}
	for _, recent := range a.history.LastMinute() {
		tallyIn(sums, queueKey{a.shownTenant(recent.Tenant), recent.Queue}).Add(&recent.Tally)
	}
	keys := largest(e, "queen_queue_conflated_per_minute", sortedKeys(sums, func(x, y queueKey) int {
		return cmp.Or(cmp.Compare(sums[y].Counts[history.PopMessages], sums[x].Counts[history.PopMessages]), compareQueues(x, y))
	}), compareQueues)
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

// maxSeries is how many series a family with a label for queues or groups has on the page. Names are up to clients, and a
// page with a series for each of many thousand is too large for whoever reads it.
const maxSeries = 1000

// largest cuts keys, which are ordered by what their series show, the largest first, and puts the ones that are left into
// the order of their names. It says on the page how many were cut off.
func largest[K any](e *exposition, family string, keys []K, byName func(x, y K) int) []K {
	if len(keys) > maxSeries {
		e.truncated = append(e.truncated, truncation{family, len(keys) - maxSeries})
		keys = keys[:maxSeries]
	}
	slices.SortFunc(keys, byName)
	return keys
}

func compareGroups(x, y groupKey) int {
	return cmp.Or(compareQueues(x.queueKey, y.queueKey), cmp.Compare(x.group, y.group))
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
	letters := largest(e, "queen_dlq_depth_by_queue", sortedKeys(found.deadLetters, func(x, y queueKey) int {
		return cmp.Or(cmp.Compare(found.deadLetters[y], found.deadLetters[x]), compareQueues(x, y))
	}), compareQueues)
	for _, key := range letters {
		e.sample("queen_dlq_depth_by_queue", float64(found.deadLetters[key]), queueLabels(key.tenant, key.queue)...)
	}
	groups := largest(e, "queen_consumer_group_lag", sortedKeys(found.groups, func(x, y groupKey) int {
		return cmp.Or(cmp.Compare(found.groups[y].messages, found.groups[x].messages), compareGroups(x, y))
	}), compareGroups)
	for _, key := range groups {
		e.sample("queen_consumer_group_lag", float64(found.groups[key].messages), queueLabels(key.tenant, key.queue, label{"group", key.group})...)
	}
	for _, key := range groups {
		e.sample("queen_consumer_group_lag_seconds", found.groups[key].seconds, queueLabels(key.tenant, key.queue, label{"group", key.group})...)
	}
	e.sample("queen_consumer_group_lag_complete", oneIf(found.complete))
	e.sample("queen_store_corruption_total", float64(found.store.Corruptions))
	missing := 0
	for _, queue := range a.broker().Directory().All() {
		if queue.Options.EncryptionEnabled && !a.cipher.Usable() {
			missing++
		}
	}
	e.sample("queen_encryption_missing_key_queues", float64(missing))
}
