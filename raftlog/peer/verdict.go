package peer

import (
	"slices"

	"queen/raftlog/identity"
)

// Verdict is what one node thinks of another (cluster 2.6).
type Verdict string

// The verdicts, in the order in which they are looked for.
const (
	Foreign    Verdict = "foreign"
	TooOld     Verdict = "too_old"
	Unknown    Verdict = "unknown"
	Replaced   Verdict = "replaced"
	Superseded Verdict = "superseded"
	RolledBack Verdict = "rolled_back"
	OK         Verdict = "ok"
)

func (v Verdict) known() bool {
	switch v {
	case Foreign, TooOld, Unknown, Replaced, Superseded, RolledBack, OK:
		return true
	}
	return false
}

// Member is the part of a row of the members table that verdicts need (cluster 2.3).
type Member struct {
	NodeID      uint64
	Incarnation string
	BootNonce   string
	// AddedIndex is the entry that wrote this incarnation into the table.
	AddedIndex uint64
}

// Witness is what a member and incarnation has shown before (cluster 2.5).
type Witness struct {
	Incarnation string
	// BootNonce is the process that has shown it last. That one cannot have gone back: it only says where it was when its handshake began.
	BootNonce string
	// Term is the highest current term that the member has shown, Index the highest one that it has acknowledged and that
	// was committed.
	Term  uint64
	Index uint64
}

// View is what a node knows of its cluster when it judges.
type View struct {
	// ClusterVersion is the format that the cluster writes, 0 when it is not known.
	ClusterVersion uint32
	// Members is the members table as applied here, AppliedIndex up to which entry. While the table is empty, nobody can be
	// unknown or replaced.
	Members      []Member
	AppliedIndex uint64
	// Planned are the ids that the pending plan adds.
	Planned []uint64
	// Witnessed are the records of the judged node.
	Witnessed []Witness
	// Connected are the boot nonces of the other processes of the judged node's incarnation that are connected here.
	Connected []string
}

// Judge returns the verdict of node self on node remote. It is a pure function of its arguments, in the order of the
// table in cluster 2.6.
//
// A node without a cluster id belongs to no cluster yet: it cannot be foreign, but it is replaced when the table knows its
// id with another incarnation, and unknown when it does not know its id. A node that belongs to no cluster itself cannot
// judge: everybody is ok. What such nodes may talk about is the rule of Carries.
//
// A node that was away judges by an old table, and one adverse verdict of any voter binds. So a row is not used against a
// node that shows to know a newer one: its incarnation was added by a later entry than the row's, or a nonce with a
// higher counter was confirmed. A directory that is really older or other can show neither. A node whose log is not open yet
// does not know where it ends, and is not measured by a witness: it shakes hands again before it takes part in anything.
func Judge(self, remote *Hello, view *View) Verdict {
	if self.ClusterID == "" {
		return OK
	}
	if remote.ClusterID != "" && (remote.ClusterID != self.ClusterID || remote.ClusterEpoch != self.ClusterEpoch) {
		return Foreign
	}
	if remote.Kinds < view.ClusterVersion {
		return TooOld
	}
	row, found := view.member(remote.NodeID)
	if !found && len(view.Members) > 0 && !slices.Contains(view.Planned, remote.NodeID) &&
		remote.AddedIndex <= view.AppliedIndex {
		return Unknown
	}
	if found && remote.AddedIndex > row.AddedIndex {
		row, found = Member{}, false
	}
	if found && remote.Incarnation != row.Incarnation {
		if why, _, marked := MarkedForReset(row.Incarnation); marked {
			return why
		}
		return Replaced
	}
	for _, nonce := range view.Connected {
		if newer(nonce, remote.BootNonce, row.BootNonce) {
			return Superseded
		}
	}
	if row.BootNonce != "" && !remembers(remote, row.BootNonce) {
		return RolledBack
	}
	for _, witness := range view.Witnessed {
		if remote.positioned() && witness.BootNonce != remote.BootNonce && witness.Incarnation == remote.Incarnation &&
			(remote.CurrentTerm < witness.Term || remote.LastLogIndex < witness.Index) {
			return RolledBack
		}
	}
	return OK
}

func (v *View) member(id uint64) (Member, bool) {
	for _, member := range v.Members {
		if member.NodeID == id {
			return member, true
		}
	}
	return Member{}, false
}

// newer tells whether a boot nonce is newer than another one: by its counter; at equal counters the recorded one is.
func newer(nonce, than, recorded string) bool {
	if nonce == than {
		return false
	}
	counter, ok := identity.NonceCounter(nonce)
	other, otherOK := identity.NonceCounter(than)
	if !ok || !otherOK {
		return false
	}
	return counter > other || counter == other && nonce == recorded
}

// remembers tells whether the recorded boot nonce is one that the directory of the node has had, or an outdated record.
func remembers(remote *Hello, recorded string) bool {
	if recorded == remote.ConfirmedNonce || recorded == remote.BootNonce || slices.Contains(remote.PendingNonces, recorded) {
		return true
	}
	counter, ok := identity.NonceCounter(recorded)
	confirmed, confirmedOK := identity.NonceCounter(remote.ConfirmedNonce)
	return ok && confirmedOK && counter < confirmed
}

// Carries tells whether a connection serves its purpose under both sides' verdicts. Both ends compute it from the same
// handshake, so they agree without another frame.
//
//   - superseded and foreign: nothing. The first asks again later, the second is for an operator to solve; what each is told
//     is in the refusal.
//   - any other adverse verdict, or a side that belongs to no cluster: admin and status only. They are how a fresh node is
//     formed or added, how an old build is seen to be one, and how a member that lost its directory is told to return.
//   - otherwise: everything.
func Carries(purpose Purpose, self, remote *Hello, verdicts ...Verdict) bool {
	restricted := self.ClusterID == "" || remote.ClusterID == ""
	for _, verdict := range verdicts {
		switch verdict {
		case OK:
		case Foreign, Superseded:
			return false
		default:
			restricted = true
		}
	}
	return !restricted || purpose == Admin || purpose == Status
}
