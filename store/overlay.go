package store

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// operation is what a batch does to one key.
type operation struct {
	key, value []byte
	deleted    bool
}

// overlay holds the operations of one batch over what lies below it. Keys are sorted only when somebody scans, and by
// their first byte apart: a scan of pages does not sort the rows of dead letters that are written meanwhile.
type overlay struct {
	mu         sync.RWMutex
	operations map[string]operation
	families   map[byte]*keyFamily
	bytes      int // keys and values
}

// keyFamily is the keys of one first byte.
type keyFamily struct {
	// sorted is never changed in place: cursors stand in it.
	sorted []string
	// added came since sorted was made; removed tells that some of sorted may be gone.
	added   []string
	removed bool
}

func (o *overlay) get(key []byte) (operation, bool) {
	o.mu.RLock()
	op, ok := o.operations[string(key)]
	o.mu.RUnlock()
	return op, ok
}

// familyOf returns the family of a key; the lock is held.
func (o *overlay) familyOf(key []byte) *keyFamily {
	var first byte
	if len(key) > 0 {
		first = key[0]
	}
	family := o.families[first]
	if family == nil {
		family = &keyFamily{}
		o.families[first] = family
	}
	return family
}

// set stores op and returns what it replaces.
func (o *overlay) set(op operation) (before operation, existed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.operations == nil {
		o.operations, o.families = make(map[string]operation), make(map[byte]*keyFamily)
	}
	before, existed = o.operations[string(op.key)]
	o.bytes += len(op.value)
	if existed {
		o.bytes -= len(before.value)
		o.operations[string(op.key)] = op
		return before, true
	}
	key := string(op.key)
	o.operations[key] = op
	o.bytes += len(key)
	family := o.familyOf(op.key)
	family.added = append(family.added, key)
	return before, false
}

// restore undoes a set.
func (o *overlay) restore(key []byte, before operation, existed bool) {
	if existed {
		o.set(before)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	op, ok := o.operations[string(key)]
	if !ok {
		return
	}
	delete(o.operations, string(key))
	o.bytes -= len(op.key) + len(op.value)
	o.familyOf(key).removed = true
}

// keys returns the sorted keys of the family of a prefix, or of all families when the prefix is empty.
func (o *overlay) keys(prefix []byte) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(prefix) > 0 {
		if family := o.families[prefix[0]]; family != nil {
			return family.inOrder(o.operations)
		}
		return nil
	}
	var all []string
	for _, first := range slices.Sorted(maps.Keys(o.families)) {
		all = append(all, o.families[first].inOrder(o.operations)...)
	}
	return all
}

// inOrder brings sorted up to date and returns it.
func (f *keyFamily) inOrder(present map[string]operation) []string {
	if len(f.added) == 0 && !f.removed {
		return f.sorted
	}
	keys := make([]string, 0, len(f.sorted)+len(f.added))
	for _, part := range [2][]string{f.sorted, f.added} {
		for _, key := range part {
			if _, ok := present[key]; ok || !f.removed {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	f.sorted, f.added, f.removed = slices.Compact(keys), nil, false
	return f.sorted
}

// overlayCursor stands in the sorted keys of one overlay.
type overlayCursor struct {
	of   *overlay
	keys []string // those left, in the direction of the query

}

// cursor selects the keys of a query.
func (o *overlay) cursor(q query) overlayCursor {
	keys := o.keys(q.prefix)
	from, to := 0, len(keys)
	if len(q.prefix) > 0 {
		from, _ = slices.BinarySearch(keys, string(q.prefix))
	}
	if end := successor(q.prefix); end != nil {
		to, _ = slices.BinarySearch(keys, string(end))
	}
	if q.from != nil {
		at, exact := slices.BinarySearch(keys, string(q.from))
		if q.reverse {
			if exact {
				at++
			}
			to = min(to, at)
		} else {
			from = max(from, at)
		}
	}
	return overlayCursor{of: o, keys: keys[min(from, to):to]}
}

func (c *overlayCursor) empty() bool { return len(c.keys) == 0 }

func (c *overlayCursor) key(reverse bool) string {
	if reverse {
		return c.keys[len(c.keys)-1]
	}
	return c.keys[0]
}

func (c *overlayCursor) next(reverse bool) {
	if reverse {
		c.keys = c.keys[:len(c.keys)-1]
	} else {
		c.keys = c.keys[1:]
	}
}

// overlayMerge merges the cursors of several overlays; of equal keys the newest overlay wins.
type overlayMerge struct {
	reverse bool
	cursors []overlayCursor // newest first
	top     int             // cursor of the current key, -1 at the end
}

func mergeOverlays(q query, overlays []*overlay) *overlayMerge {
	m := &overlayMerge{reverse: q.reverse}
	for _, o := range overlays {
		if c := o.cursor(q); !c.empty() {
			m.cursors = append(m.cursors, c)
		}
	}
	m.pick()
	return m
}

func (m *overlayMerge) pick() {
	m.top = -1
	for i := range m.cursors {
		c := &m.cursors[i]
		if c.empty() {
			continue
		}
		if m.top < 0 {
			m.top = i
			continue
		}
		order := strings.Compare(c.key(m.reverse), m.cursors[m.top].key(m.reverse))
		if m.reverse {
			order = -order
		}
		if order < 0 {
			m.top = i
		}
	}
}

// peek returns the operation on the current key; false at the end.
func (m *overlayMerge) peek() (operation, bool) {
	for m.top >= 0 {
		c := &m.cursors[m.top]
		c.of.mu.RLock()
		op, ok := c.of.operations[c.key(m.reverse)]
		c.of.mu.RUnlock()
		if ok {
			return op, true
		}
		m.next() // rolled back since the cursor was made
	}
	return operation{}, false
}

func (m *overlayMerge) next() {
	key := m.cursors[m.top].key(m.reverse)
	for i := range m.cursors {
		if c := &m.cursors[i]; !c.empty() && c.key(m.reverse) == key {
			c.next(m.reverse)
		}
	}
	m.pick()
}

// normal makes an absent value an empty one, so that nil keeps meaning "no such key".
func normal(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}
