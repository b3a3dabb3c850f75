package partition

import (
	"math"
	"slices"
)

const (
	// generationMessages is how many messages the first generations of an index take: growing their tables moves at most so
	// many entries, some hundred microseconds.
	generationMessages = 65_536
	// maxGenerationMessages bounds a generation: its table takes 64 MiB.
	maxGenerationMessages = 1 << 22
	// windowShares is how many generations a slow partition spreads its window over, so that what has left the window is
	// forgotten after a quarter of it.
	windowShares = 4
)

// index proposes where a txid hash was stored. It covers every message below the inline part whose stamp is at least
// coveredMicros, and perhaps some older ones. It may propose wrongly (one lookup in some 10,000): whoever asks confirms.
type index struct {
	// generations are ordered by offset.
	generations   []*generation
	coveredMicros uint64
}

// generation covers a stretch of offsets and is forgotten as a whole.
type generation struct {
	table
	base, end      uint64
	oldest, newest uint64
	limit          int
	added          int
	// repeats holds the later positions of fingerprints that came more than once, ascending.
	repeats map[uint32][]uint32
}

// add enters a message. Offsets and stamps must not fall.
func (x *index) add(hash []byte, offset, stampMicros, windowMicros uint64) {
	g := x.open(offset, stampMicros, windowMicros)
	fp, position := fingerprint(hash), uint32(offset-g.base)
	if _, existed := g.table.add(fp, position); existed {
		if g.repeats == nil {
			g.repeats = make(map[uint32][]uint32)
		}
		g.repeats[fp] = append(g.repeats[fp], position)
	}
	g.added++
	g.end, g.newest = offset+1, stampMicros
}

// open returns the generation that takes the message, a new one when the newest is full, spans its share of the window or
// cannot express the position.
func (x *index) open(offset, stampMicros, windowMicros uint64) *generation {
	limit, room := generationMessages, 0
	if n := len(x.generations); n > 0 {
		g := x.generations[n-1]
		full := g.added >= g.limit
		aged := stampMicros-g.oldest > windowMicros/windowShares
		if !full && !aged && offset-g.base < math.MaxUint32-1 {
			return g
		}
		if full {
			limit = x.nextLimit()
			room = limit
		}
	}
	g := &generation{table: newTable(room), base: offset, oldest: stampMicros, limit: limit}
	x.generations = append(x.generations, g)
	return g
}

// nextLimit is half of what is remembered: a look-up visits every generation, so a large window has to have few.
func (x *index) nextLimit() int {
	total := 0
	for _, g := range x.generations {
		total += g.added
	}
	limit := generationMessages
	for limit < maxGenerationMessages && limit*2 < total {
		limit *= 2
	}
	return limit
}

// addAppend enters all messages of an append; hashes holds 16 bytes each.
func (x *index) addAppend(a *Append, hashes []byte, windowMicros uint64) {
	for place := 0; place*hashBytes < len(hashes); place++ {
		x.add(hashes[place*hashBytes:(place+1)*hashBytes], a.Base+uint64(place), a.StampMicros, windowMicros)
	}
}

// forget drops the generations that hold nothing stamped at or after cutoffMicros.
func (x *index) forget(cutoffMicros uint64) {
	drop := 0
	for drop < len(x.generations) && x.generations[drop].newest < cutoffMicros {
		x.coveredMicros = max(x.coveredMicros, x.generations[drop].newest+1)
		drop++
	}
	x.generations = slices.Delete(x.generations, 0, drop)
}

// floor is the lowest covered offset; above when nothing is covered.
func (x *index) floor(above uint64) uint64 {
	if x == nil || len(x.generations) == 0 {
		return above
	}
	return x.generations[0].base
}

// trail proposes offsets for one hash within [low, high), one by one, upwards or downwards.
type trail struct {
	index     *index
	fp        uint32
	low, high uint64
	falling   bool
	// generation and at are the next place to look at; at -1 means before the generation's first proposal.
	generation int
	at         int
	entered    bool
}

func (x *index) trail(hash []byte, low, high uint64, falling bool) trail {
	t := trail{index: x, fp: fingerprint(hash), low: low, high: high, falling: falling}
	if x != nil && falling {
		t.generation = len(x.generations) - 1
	}
	return t
}

// next returns the next proposal.
func (t *trail) next() (offset uint64, ok bool) {
	if t.index == nil {
		return 0, false
	}
	for t.generation >= 0 && t.generation < len(t.index.generations) {
		g := t.index.generations[t.generation]
		if g.end > t.low && g.base < t.high {
			if offset, ok = t.nextIn(g); ok {
				return offset, true
			}
		}
		t.entered = false
		if t.falling {
			t.generation--
		} else {
			t.generation++
		}
	}
	return 0, false
}

// nextIn treats the first position and the repeats of a fingerprint as one ascending list and steps through the part of
// it that lies in the range.
func (t *trail) nextIn(g *generation) (uint64, bool) {
	first, found := g.find(t.fp)
	if !found {
		return 0, false
	}
	repeats := g.repeats[t.fp]
	position := func(i int) uint64 {
		if i == 0 {
			return g.base + uint64(first)
		}
		return g.base + uint64(repeats[i-1])
	}
	count := 1 + len(repeats)
	if !t.entered {
		t.entered = true
		t.at = t.enter(count, position)
	}
	if t.at < 0 || t.at >= count {
		return 0, false
	}
	offset := position(t.at)
	if offset < t.low || offset >= t.high {
		return 0, false
	}
	if t.falling {
		t.at--
	} else {
		t.at++
	}
	return offset, true
}

// enter finds the first list index of the range: the lowest at or above low, or the highest below high.
func (t *trail) enter(count int, position func(int) uint64) int {
	bound := t.low
	if t.falling {
		bound = t.high
	}
	low, high := 0, count
	for low < high {
		middle := (low + high) / 2
		if position(middle) < bound {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if t.falling {
		return low - 1
	}
	return low
}

// promising returns which of the hashes, by entry of set, the index can propose anything for in [low, high). It goes
// through one table after the other: most answers are no, and independent probes overlap in the processor.
func (x *index) promising(set *hashSet, entries []uint32, low, high uint64) []uint32 {
	if x == nil {
		return nil
	}
	fingerprints := make([]uint32, len(entries))
	for i, entry := range entries {
		fingerprints[i] = fingerprint(set.at(entry))
	}
	var hits []uint32
	for _, g := range x.generations {
		if g.end <= low || g.base >= high {
			continue
		}
		for i, fp := range fingerprints {
			if _, found := g.find(fp); found {
				hits = append(hits, entries[i])
			}
		}
	}
	slices.Sort(hits)
	return slices.Compact(hits)
}
