package raftlog

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Witness is what a member has shown of a directory (cluster 2.5): whoever comes back with less has lost some of it.
type Witness struct {
	NodeID      uint64 `json:"nodeId"`
	Incarnation string `json:"incarnation"`
	// BootNonce is the process that has shown it last. A process that runs never goes back, whatever it said a moment ago.
	BootNonce string `json:"bootNonce"`
	// Term is the highest term, Index the highest entry that the member had applied: it had acknowledged it, and it was committed.
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// maxWitnesses bounds the records: members, and some that are none any more.
const maxWitnesses = 64

// witnesses are the records of the members, one each: a new directory takes the place of the former one. The zero value has none.
type witnesses struct {
	mu      sync.Mutex
	records map[uint64]Witness
}

// note takes in what members have shown. Nothing that is known of a directory ever becomes less.
func (w *witnesses) note(shown ...Witness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records == nil {
		w.records = map[uint64]Witness{}
	}
	for _, now := range shown {
		before, known := w.records[now.NodeID]
		if now.NodeID == 0 || now.Incarnation == "" || !known && len(w.records) >= maxWitnesses {
			continue
		}
		if before.Incarnation == now.Incarnation {
			now.Term, now.Index = max(now.Term, before.Term), max(now.Index, before.Index)
		}
		w.records[now.NodeID] = now
	}
}

// all lists the records, ascending by node.
func (w *witnesses) all() []Witness {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.records), func(a, b Witness) int { return cmp.Compare(a.NodeID, b.NodeID) })
}

// Witnesses lists what the members have shown, as far as this node knows, ascending by node.
func (n *Node) Witnesses() []Witness { return n.witnesses.all() }

// showing is what this node shows of its directory by a frame.
func (f *MemberFrame) showing(id uint64) Witness {
	return Witness{NodeID: id, Incarnation: f.Incarnation, BootNonce: f.BootNonce, Term: f.Term, Index: f.Applied}
}
