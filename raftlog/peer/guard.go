package peer

import "slices"

// Judgement is what another node has said last of a directory of this one.
type Judgement struct {
	By Hello
	// Verdict is about the directory with this incarnation.
	Verdict     Verdict
	Incarnation string
}

// Binds tells whether a verdict keeps the node that it is about out of its group (cluster 2.6).
func (v Verdict) Binds() bool {
	return v == Replaced || v == RolledBack || v == Superseded
}

// Bound returns the verdict that keeps node self out of its group, and by whom it is; OK for none. One adverse verdict of a member
// of the node's own cluster binds, whatever others say. A node that belongs to no cluster is bound by any that knows it. It is a
// pure function; the order of the judgements does not matter.
func Bound(self *Hello, judgements []Judgement) (Verdict, uint64) {
	found := Judgement{Verdict: OK}
	for _, j := range judgements {
		if j.Incarnation != self.Incarnation || !j.Verdict.Binds() || !fellow(self, &j.By) {
			continue
		}
		first := found.Verdict == OK || slices.Index(gravity, j.Verdict) < slices.Index(gravity, found.Verdict)
		if first || j.Verdict == found.Verdict && j.By.NodeID < found.By.NodeID {
			found = j
		}
	}
	return found.Verdict, found.By.NodeID
}

// gravity is the order in which binding verdicts are shown, that of cluster 2.6.
var gravity = []Verdict{Replaced, Superseded, RolledBack}

// fellow tells whether a node may judge this one: it belongs to a cluster, and this one to the same or to none.
func fellow(self, by *Hello) bool {
	return by.ClusterID != "" &&
		(self.ClusterID == "" || by.ClusterID == self.ClusterID && by.ClusterEpoch == self.ClusterEpoch)
}

// Quorate tells whether enough of the voters have accepted this node, which is one of them, to form a majority with it. A voter
// whose log is not open yet knows nobody, and does not count.
func Quorate(self *Hello, voters []uint64, judgements []Judgement) bool {
	accepted := 1
	for _, j := range judgements {
		if j.By.NodeID != self.NodeID && slices.Contains(voters, j.By.NodeID) && j.Incarnation == self.Incarnation &&
			j.Verdict == OK && fellow(self, &j.By) && j.By.positioned() {
			accepted++
		}
	}
	return accepted > len(voters)/2
}

// Estranged tells whether none but nodes of other clusters answer to a node that belongs to one (cluster 2.6, foreign).
func Estranged(self *Hello, judgements []Judgement) bool {
	foreign := false
	for _, j := range judgements {
		if j.Incarnation != self.Incarnation {
			continue
		}
		if j.Verdict != Foreign {
			return false
		}
		foreign = true
	}
	return foreign && self.ClusterID != ""
}

// positioned tells whether a node says where its log ends: it does not before the log is open.
func (h *Hello) positioned() bool { return h.LastLogIndex > 0 }
