package partition

import (
	"fmt"
	"slices"
	"sort"

	"queen/raftlog/command"
)

// Judgement says which messages of a push would not be stored (messaging 4.6).
type Judgement struct {
	// Window are those whose txid is in the dedup window, repeats of them in the call included; ordered by Item.
	Window []command.Duplicate
	// Repeats are those that repeat a message of the call which itself would be stored; ordered by Item. Their offsets are
	// right when the push is the next one of the partition.
	Repeats []command.Duplicate
}

// CheckDuplicates judges a push without changing anything; a transaction rolls back when Window is not empty and
// collapses Repeats (messaging 8.3, 8.4).
func (m *Machine) CheckDuplicates(r Reader, in AppendInput) (Judgement, error) {
	b, err := readBatch(in.Chunk, in.Count)
	if err != nil {
		return Judgement{}, err
	}
	return m.judge(m.log(r), b, &in)
}

// repeat is a message of a push whose txid stands earlier in it.
type repeat struct{ item, first uint32 }

// match is a stored message with the txid of an item.
type match struct {
	item     uint32
	inWindow bool
	offset   uint64
}

func (m *Machine) judge(l *log, b *batch, in *AppendInput) (Judgement, error) {
	if b.named == 0 {
		return Judgement{}, nil
	}
	set := newHashSet(b.hashes)
	asked := make([]uint32, 0, b.named)
	var repeats []repeat
	for i := range uint32(b.count()) {
		first, existed := set.enter(i)
		switch {
		case b.unnamed[i]:
		case existed:
			repeats = append(repeats, repeat{item: i, first: first})
		default:
			asked = append(asked, i)
		}
	}
	f := finder{log: l}
	matches, err := m.matches(&f, &set, asked, in)
	if err != nil {
		return Judgement{}, fmt.Errorf("look up txids in partition %d: %w", m.partition, err)
	}
	var judgement Judgement
	if judgement.Window, err = f.originals(matches); err != nil {
		return Judgement{}, fmt.Errorf("read originals in partition %d: %w", m.partition, err)
	}
	if len(repeats) > 0 {
		judgement.addRepeats(b, repeats, m.head.Tail)
	}
	return judgement, nil
}

// matches returns, ordered by item, the lowest known message with the txid of each asked item that is in the dedup window.
// Known is what the hash window still holds: after the dedup window has lapsed once the log holds several messages with
// one txid, and the lowest offset is reported.
func (m *Machine) matches(f *finder, set *hashSet, asked []uint32, in *AppendInput) ([]match, error) {
	now, hashWindow := in.StampMicros, max(in.HashWindowMicros, in.DedupWindowMicros)
	if !inWindow(m.head.LastStampMicros, now, in.DedupWindowMicros) {
		return nil, nil
	}
	inline, err := m.inlineMatches(set, asked, in)
	if err != nil {
		return nil, err
	}
	x, err := m.indexFor(f.log, now, hashWindow)
	if err != nil {
		return nil, err
	}
	// An item is a duplicate when its newest match is in the dedup window. Only then older matches matter.
	var newest []search
	oldest := cutoff(now, in.DedupWindowMicros)
	for _, item := range x.promising(set, asked, 0, m.head.inlineBase) {
		newest = append(newest, search{entry: item, trail: x.trail(set.at(item), 0, m.head.inlineBase, true), oldestMicros: oldest,
			acceptFrom: nowhere})
	}
	if err = f.run(set, newest); err != nil {
		return nil, err
	}
	if x == nil || len(newest)+len(inline) == 0 {
		return inline, nil
	}
	duplicates := make(map[uint32]uint64, len(inline))
	for _, s := range newest {
		if s.found {
			duplicates[s.entry] = s.proposal
		}
	}
	for _, known := range inline {
		if _, older := duplicates[known.item]; !older {
			duplicates[known.item] = known.offset
		}
	}
	return m.lowest(f, set, x, duplicates, cutoff(now, hashWindow))
}

// lowest replaces the offsets by the lowest known ones.
func (m *Machine) lowest(f *finder, set *hashSet, x *index, duplicates map[uint32]uint64, oldest uint64) ([]match, error) {
	items := make([]uint32, 0, len(duplicates))
	for item := range duplicates {
		items = append(items, item)
	}
	slices.Sort(items)
	searches := make([]search, 0, len(items))
	for _, item := range items {
		bound := min(duplicates[item], m.head.inlineBase)
		searches = append(searches, search{entry: item, trail: x.trail(set.at(item), 0, bound, false), oldestMicros: oldest,
			acceptFrom: nowhere})
	}
	if err := f.run(set, searches); err != nil {
		return nil, err
	}
	matches := make([]match, len(items))
	for i, item := range items {
		matches[i] = match{item: item, inWindow: true, offset: duplicates[item]}
		if searches[i].found {
			matches[i].offset = searches[i].proposal
		}
	}
	return matches, nil
}

// inlineMatches looks through the references in the head: the lowest match of each item that has one in the dedup window.
func (m *Machine) inlineMatches(set *hashSet, asked []uint32, in *AppendInput) ([]match, error) {
	var all []match
	hashWindow := max(in.HashWindowMicros, in.DedupWindowMicros)
	walk := m.head.inlineReferences()
	var a Append
	for {
		more, err := walk.next(&a)
		if err != nil {
			return nil, fmt.Errorf("walk inline references: %w: %w", err, ErrBadHead)
		}
		if !more {
			break
		}
		if !inWindow(a.StampMicros, in.StampMicros, hashWindow) {
			continue
		}
		fresh := inWindow(a.StampMicros, in.StampMicros, in.DedupWindowMicros)
		for place := range uint64(a.Count) {
			item, found := set.lookup(a.hashes[place*hashBytes : (place+1)*hashBytes])
			if _, named := slices.BinarySearch(asked, item); found && named {
				all = append(all, match{item: item, offset: a.Base + place, inWindow: fresh})
			}
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].item < all[j].item })
	kept := all[:0]
	for i := 0; i < len(all); {
		lowest := all[i]
		for ; i < len(all) && all[i].item == lowest.item; i++ {
			lowest.inWindow = lowest.inWindow || all[i].inWindow
		}
		if lowest.inWindow {
			kept = append(kept, lowest)
		}
	}
	return kept, nil
}

// originals turns matches, ordered by item, into duplicates with the ids of the originals.
func (f *finder) originals(matches []match) ([]command.Duplicate, error) {
	if len(matches) == 0 {
		return nil, nil
	}
	offsets := make([]uint64, len(matches))
	for i := range matches {
		offsets[i] = matches[i].offset
	}
	slices.Sort(offsets)
	offsets = slices.Compact(offsets)
	ids, err := f.ids(offsets)
	if err != nil {
		return nil, err
	}
	duplicates := make([]command.Duplicate, len(matches))
	for i := range matches {
		at, _ := slices.BinarySearch(offsets, matches[i].offset)
		duplicates[i] = command.Duplicate{Item: matches[i].item, ID: ids[at], Offset: matches[i].offset}
	}
	return duplicates, nil
}

// addRepeats sorts the repeats of a call under what their first occurrence is.
func (j *Judgement) addRepeats(b *batch, repeats []repeat, tail uint64) {
	originals := j.Window
	for _, again := range repeats {
		at, known := slices.BinarySearchFunc(originals, again.first, compareItem)
		if known {
			original := originals[at]
			j.Window = append(j.Window, command.Duplicate{Item: again.item, ID: original.ID, Offset: original.Offset})
		} else {
			j.Repeats = append(j.Repeats, command.Duplicate{Item: again.item, ID: b.id(again.first)})
		}
	}
	// Appended behind originals, whose view of the slice stays sorted.
	slices.SortFunc(j.Window, func(x, y command.Duplicate) int { return int(x.Item) - int(y.Item) })
	dropped := j.all()
	next := 0
	for _, again := range repeats {
		if next == len(j.Repeats) || j.Repeats[next].Item != again.item {
			continue
		}
		before, _ := slices.BinarySearchFunc(dropped, again.first, compareItem)
		j.Repeats[next].Offset = tail + uint64(again.first) - uint64(before)
		next++
	}
}

func compareItem(d command.Duplicate, item uint32) int { return int(d.Item) - int(item) }

// all returns every duplicate, ordered by item.
func (j *Judgement) all() []command.Duplicate {
	if len(j.Repeats) == 0 {
		return j.Window
	}
	all := slices.Concat(j.Window, j.Repeats)
	slices.SortFunc(all, func(x, y command.Duplicate) int { return int(x.Item) - int(y.Item) })
	return all
}
