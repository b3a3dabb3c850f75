package node

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"queen/cmd/queen/version"
	"queen/httpfront/api"
	"queen/raftlog"
	"queen/raftlog/peer"
)

const (
	// kindReport asks a member how it is, over the purpose admin.
	kindReport = "member.report"
	// reportTimeout is how long a member may take to answer (cluster 7.3).
	reportTimeout = time.Second
)

// memberAnswer is the answer of a member to kindReport.
type memberAnswer struct {
	State    string           `json:"state"`
	Identity string           `json:"identity"`
	Report   api.MemberReport `json:"report"`
}

// answerReport is the asked side of Members.
func (h *health) answerReport(peer.Hello, []byte) ([]byte, error) { return json.Marshal(h.report()) }

// report describes this node.
func (h *health) report() memberAnswer {
	health := h.Health()
	s := &health.Status
	answer := memberAnswer{State: health.Role, Identity: health.Identity}
	if answer.State == string(raftlog.RoleStopped) {
		answer.State = "shutdown"
	}
	now := time.Now()
	answer.Report = api.MemberReport{
		Hostname: h.config.ServerID, Term: s.Term, LastLogIndex: s.LastIndex, AppliedIndex: s.AppliedIndex,
		CommittedIndex: s.CommitIndex, DurableIndex: s.DurableIndex, PurgedIndex: max(s.FirstIndex, 1) - 1,
		SnapshotIndex: s.SnapshotIndex, LagEntries: s.LagEntries, InFlight: s.InFlightEntries,
		DiskPercent: health.DiskPercent, Log: api.LogReport{Bytes: s.LogBytes, Files: s.LogFiles},
		Version: health.Version, Kinds: version.Format, UptimeSeconds: now.Sub(h.host.started).Seconds(), Host: h.host.report(now),
	}
	if self, known := h.config.Self(); known {
		answer.Report.HTTPAddress, answer.Report.RaftAddress = self.HTTPAddress, self.RaftAddress
	}
	if state := h.store.Load(); state != nil {
		usage := state.Usage()
		answer.Report.Store = api.StoreReport{
			MapUsedPercent: health.DiskPercent, UsedBytes: max(usage.MainDiskBytes, 0) + max(usage.BucketDiskBytes, 0),
			MapBytes: int64(answer.Report.Host.DiskTotalBytes), ReadersInUse: usage.OpenViews,
			LSMBytes: max(usage.MainDiskBytes, 0), ValueLogBytes: max(usage.BucketDiskBytes, 0),
		}
	}
	return answer
}

// Members implements api.Node: every member is asked at the same time.
func (h *health) Members() api.Members {
	health := h.Health()
	out := api.Members{
		ClusterID: health.ClusterID, ClusterEpoch: health.ClusterEpoch, Term: health.Term, Self: health.NodeID, Voters: health.Voters,
	}
	if out.Voters == nil {
		out.Voters = []uint64{}
	}
	if health.LeaderID != 0 {
		out.LeaderID = &health.LeaderID
	}
	ids := slices.Concat(health.Voters, health.Learners)
	if !slices.Contains(ids, health.NodeID) {
		ids = append(ids, health.NodeID) // not a member yet, or not any more
	}
	slices.Sort(ids)
	out.Members = make([]api.MemberView, len(ids))
	var asking sync.WaitGroup
	for i, id := range ids {
		view := &out.Members[i]
		*view = api.MemberView{NodeID: id, Role: "learner", Local: id == health.NodeID}
		if slices.Contains(health.Voters, id) {
			view.Role = "voter"
		}
		asking.Go(func() { h.askMember(view) })
	}
	asking.Wait()
	if raft := h.raft.Load(); raft != nil {
		addKnown(out.Members, raft.Members(), raft.Peers())
	}
	return out
}

// askMember fills in what a member says of itself, or why it does not.
func (h *health) askMember(view *api.MemberView) {
	answer, err := h.reportOf(view.NodeID, view.Local)
	if err != nil {
		text := err.Error()
		view.State, view.Error = "unreachable", &text
		if port := h.port.Load(); port != nil {
			view.HTTPAddress = port.httpAddress(view.NodeID)
			if known := port.addresses(view.NodeID); len(known) > 0 {
				view.RaftAddress = known[0]
			}
		}
		return
	}
	view.State, view.Reachable, view.Identity, view.MemberReport = answer.State, true, &answer.Identity, answer.Report
}

func (h *health) reportOf(id uint64, local bool) (memberAnswer, error) {
	if local {
		return h.report(), nil
	}
	admin := h.admin.Load()
	if admin == nil {
		return memberAnswer{}, fmt.Errorf("reach node %d: this node has no raft port", id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	body, err := admin.Ask(ctx, id, kindReport, nil)
	if err != nil {
		return memberAnswer{}, err
	}
	var answer memberAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return memberAnswer{}, fmt.Errorf("decode report of node %d: %w", id, err)
	}
	return answer, nil
}

// addKnown adds what the leader and this node know of the members.
func addKnown(views []api.MemberView, states []raftlog.MemberState, peers []raftlog.Peer) {
	for i := range views {
		view := &views[i]
		for j := range states {
			if state := &states[j]; state.ID == view.NodeID && state.LastAckMs >= 0 {
				view.MatchIndex, view.HeartbeatAgeMs = &state.LastLog, &state.LastAckMs
			}
		}
		for j := range peers {
			if known := &peers[j]; known.ID == view.NodeID && known.Measured {
				view.ClockSkewMs = thousandths(known.SkewMs)
			}
		}
	}
}

// Peers implements api.Node.
func (h *health) Peers() []api.Peer {
	raft := h.raft.Load()
	if raft == nil {
		return nil
	}
	var out []api.Peer
	for _, known := range raft.Peers() {
		row := api.Peer{NodeID: known.ID, Live: known.Live}
		if known.LastAckMs >= 0 {
			row.LastAckMs = &known.LastAckMs
		}
		if known.Measured {
			row.ClockSkewMs = thousandths(known.SkewMs)
		}
		out = append(out, row)
	}
	return out
}

// thousandths is as much of a skew in ms as its clocks tell.
func thousandths(ms float64) *float64 {
	rounded := math.Round(ms*1000) / 1000
	return &rounded
}
