package peer

import (
	"fmt"
	"testing"
)

// setup is a judge, the judged node, and what the judge knows.
type setup struct {
	self, remote Hello
	view         View
}

// row returns the row of the judged node.
func (s *setup) row() *Member { return &s.view.Members[1] }

// TestVerdicts has a case for every row of the table in cluster 2.6, for their order, and for nodes without a cluster.
func TestVerdicts(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*setup)
		want   Verdict
	}{
		"nothing found": {func(*setup) {}, OK},

		"other cluster":                {func(s *setup) { s.remote.ClusterID = "other" }, Foreign},
		"other epoch":                  {func(s *setup) { s.remote.ClusterEpoch = 2 }, Foreign},
		"foreign before too old":       {func(s *setup) { s.remote.ClusterID, s.remote.Kinds = "other", 1 }, Foreign},
		"fresh node of a member's id":  {func(s *setup) { s.remote.ClusterID, s.remote.ClusterEpoch, s.remote.Incarnation = "", 0, "new" }, Replaced},
		"fresh first member":           {func(s *setup) { s.remote.ClusterID, s.remote.ClusterEpoch = "", 0 }, OK},
		"fresh stranger":               {func(s *setup) { s.remote.ClusterID, s.remote.ClusterEpoch, s.remote.NodeID = "", 0, 9 }, Unknown},
		"fresh planned node":           {func(s *setup) { s.remote.ClusterID, s.remote.NodeID, s.view.Planned = "", 9, []uint64{9} }, OK},
		"fresh judge knows nobody":     {func(s *setup) { s.self.ClusterID, s.remote.ClusterID, s.remote.NodeID = "", "other", 9 }, OK},
		"judge without a table":        {func(s *setup) { s.view.Members, s.remote.NodeID = nil, 9 }, OK},
		"build too old":                {func(s *setup) { s.remote.Kinds = 6 }, TooOld},
		"too old before unknown":       {func(s *setup) { s.remote.Kinds, s.remote.NodeID = 6, 9 }, TooOld},
		"version not known":            {func(s *setup) { s.remote.Kinds, s.view.ClusterVersion = 1, 0 }, OK},
		"newer build":                  {func(s *setup) { s.remote.Kinds = 8 }, OK},
		"stranger":                     {func(s *setup) { s.remote.NodeID = 9 }, Unknown},
		"planned":                      {func(s *setup) { s.remote.NodeID, s.view.Planned = 9, []uint64{8, 9} }, OK},
		"added behind the judge":       {func(s *setup) { s.remote.NodeID, s.remote.AddedIndex = 9, 51 }, OK},
		"removed":                      {func(s *setup) { s.remote.NodeID, s.remote.AddedIndex = 9, 50 }, Unknown},
		"other incarnation":            {func(s *setup) { s.remote.Incarnation = "new" }, Replaced},
		"marked for a reset":           {func(s *setup) { s.row().Incarnation = ResetMark(Replaced, "") }, Replaced},
		"marked, rolled back":          {func(s *setup) { s.row().Incarnation = ResetMark(RolledBack, "i") }, RolledBack},
		"marked, and back already":     {func(s *setup) { s.row().Incarnation, s.remote.AddedIndex = ResetMark(RolledBack, "h"), 8 }, OK},
		"replaced before superseded":   {func(s *setup) { s.remote.Incarnation, s.view.Connected = "new", []string{nonce(9, "b")} }, Replaced},
		"rejoined behind the judge":    {func(s *setup) { s.remote.Incarnation, s.remote.AddedIndex = "new", 40 }, OK},
		"replaced, older row":          {func(s *setup) { s.remote.Incarnation, s.remote.AddedIndex = "new", 6 }, Replaced},
		"newer process":                {func(s *setup) { s.view.Connected = []string{nonce(6, "b")} }, Superseded},
		"older process":                {func(s *setup) { s.view.Connected = []string{nonce(4, "b")} }, OK},
		"equal, the other is recorded": {func(s *setup) { s.row().BootNonce, s.view.Connected = nonce(5, "b"), []string{nonce(5, "b")} }, Superseded},
		"equal, this one is recorded":  {func(s *setup) { s.row().BootNonce, s.view.Connected = nonce(5, "a"), []string{nonce(5, "b")} }, OK},
		"equal, none is recorded":      {func(s *setup) { s.view.Connected = []string{nonce(5, "b")} }, OK},
		"superseded before rolled back": {func(s *setup) {
			s.row().BootNonce, s.view.Connected = nonce(6, "b"), []string{nonce(6, "b")}
		}, Superseded},

		"recorded is confirmed":      {func(s *setup) { s.row().BootNonce = nonce(2, "a") }, OK},
		"recorded is pending":        {func(s *setup) { s.row().BootNonce = nonce(3, "a") }, OK},
		"recorded is the last":       {func(s *setup) { s.row().BootNonce = nonce(4, "a") }, OK},
		"recorded is the present":    {func(s *setup) { s.row().BootNonce = nonce(5, "a") }, OK},
		"recorded is newer":          {func(s *setup) { s.row().BootNonce = nonce(6, "a") }, RolledBack},
		"recorded is of a copy":      {func(s *setup) { s.row().BootNonce = nonce(4, "b") }, RolledBack},
		"recorded is a copy's first": {func(s *setup) { s.row().BootNonce = nonce(2, "b") }, RolledBack},
		"record is outdated":         {func(s *setup) { s.row().BootNonce = nonce(1, "a") }, OK},
		"nothing recorded":           {func(s *setup) { s.row().BootNonce = "" }, OK},
		"nothing confirmed": {func(s *setup) {
			s.row().BootNonce, s.remote.ConfirmedNonce = nonce(1, "a"), ""
		}, RolledBack},

		"term below the witnessed":  {func(s *setup) { s.remote.CurrentTerm = 3 }, RolledBack},
		"index below the witnessed": {func(s *setup) { s.remote.LastLogIndex = 19 }, RolledBack},
		"just the witnessed":        {func(s *setup) { s.remote.CurrentTerm, s.remote.LastLogIndex = 4, 20 }, OK},
		"witness of another incarnation": {func(s *setup) {
			s.remote.LastLogIndex, s.view.Witnessed[0].Incarnation = 1, "former"
		}, OK},
		"witness of the same process": {func(s *setup) {
			s.remote.LastLogIndex, s.view.Witnessed[0].BootNonce = 19, s.remote.BootNonce
		}, OK},
		"witness of another process": {func(s *setup) {
			s.remote.LastLogIndex, s.view.Witnessed[0].BootNonce = 19, nonce(4, "a")
		}, RolledBack},
		"a log that is not open": {func(s *setup) { s.remote.CurrentTerm, s.remote.LastLogIndex = 0, 0 }, OK},
	} {
		s := &setup{
			self: Hello{ClusterID: "c", ClusterEpoch: 1, NodeID: 1},
			remote: Hello{
				ClusterID: "c", ClusterEpoch: 1, NodeID: 2, Incarnation: "i", BootNonce: nonce(5, "a"),
				ConfirmedNonce: nonce(2, "a"), PendingNonces: []string{nonce(3, "a"), nonce(4, "a")},
				AddedIndex: 7, Kinds: 7, CurrentTerm: 5, LastLogIndex: 30,
			},
			view: View{
				ClusterVersion: 7, AppliedIndex: 50,
				Members: []Member{
					{NodeID: 1, Incarnation: "j", BootNonce: nonce(1, "c"), AddedIndex: 1},
					{NodeID: 2, Incarnation: "i", BootNonce: nonce(2, "a"), AddedIndex: 7},
				},
				Witnessed: []Witness{{Incarnation: "i", Term: 4, Index: 20}},
			},
		}
		row.change(s)
		if got := Judge(&s.self, &s.remote, &s.view); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

func TestCarries(t *testing.T) {
	member, fresh := &Hello{ClusterID: "c"}, &Hello{}
	all := []Purpose{Raft, Status, Command, Read, Snapshot, Admin, Ephemeral, Budget}
	few := []Purpose{Status, Admin}
	for name, row := range map[string]struct {
		self, remote *Hello
		verdicts     []Verdict
		want         []Purpose
	}{
		"members":                 {member, member, []Verdict{OK, OK}, all},
		"fresh caller":            {member, fresh, []Verdict{OK, OK}, few},
		"fresh acceptor":          {fresh, member, []Verdict{OK, OK}, few},
		"both fresh":              {fresh, fresh, []Verdict{OK, OK}, few},
		"too old":                 {member, member, []Verdict{TooOld, OK}, few},
		"unknown":                 {member, member, []Verdict{OK, Unknown}, few},
		"replaced":                {member, fresh, []Verdict{Replaced, OK}, few},
		"rolled back":             {member, member, []Verdict{OK, RolledBack}, few},
		"superseded":              {member, member, []Verdict{Superseded, OK}, nil},
		"foreign":                 {member, member, []Verdict{Foreign, Foreign}, nil},
		"foreign on the one side": {member, member, []Verdict{Replaced, Foreign}, nil},
	} {
		var got []Purpose
		for _, purpose := range all {
			if Carries(purpose, row.self, row.remote, row.verdicts...) {
				got = append(got, purpose)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(row.want) {
			t.Errorf("%s: carries %v, want %v", name, got, row.want)
		}
	}
}
