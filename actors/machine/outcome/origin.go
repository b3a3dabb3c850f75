package outcome

// origin is what is remembered of the requests of one node.
type origin struct {
	id uint64
	// below is up to which sequence the origin has answered its requests; nothing from end on is remembered.
	below, end uint64
	// slots is a ring of a power of two: a sequence from below on has the place sequence modulo the length. Those outside
	// of [below, end) are empty.
	slots []slot
	// rows is how many rows have an outcome of the origin; it is forgotten with the last of them.
	rows int
	// noted is the last row that an outcome of the origin went into, place its place among the origins of that row.
	noted *row
	place int
}

// slot knows where the outcome of a sequence is; row is nil when there is none.
type slot struct {
	row *row
	// at is the place of the result in the body of the row; in the row of the entry in execution, its place among the notes.
	at uint32
}

// row is a row as the window keeps it.
type row struct {
	index, stampMicros uint64
	// wanted is how many of its outcomes are not answered.
	wanted  int
	origins []*origin
	chunk   *chunkRef
	// gone tells the slots that still point here that the row is deleted.
	gone         bool
	older, newer *row
}

func (o *origin) slot(sequence uint64) *slot { return &o.slots[sequence&uint64(len(o.slots)-1)] }

// find returns the slot of a remembered sequence; nil when there is none.
func (o *origin) find(sequence uint64) *slot {
	if sequence < o.below || sequence >= o.end {
		return nil
	}
	if s := o.slot(sequence); s.row != nil && !s.row.gone {
		return s
	}
	return nil
}

// put fills the slot of a sequence from below on.
func (o *origin) put(sequence uint64, s slot) {
	if sequence-o.below >= uint64(len(o.slots)) {
		o.grow(sequence - o.below + 1)
	}
	*o.slot(sequence) = s
	o.end = max(o.end, sequence+1)
}

// leastSlots is the size of a new ring.
const leastSlots = 64

func (o *origin) grow(least uint64) {
	size := uint64(leastSlots)
	for size < least {
		size *= 2
	}
	old := *o
	o.slots = make([]slot, size)
	for sequence := old.below; sequence < old.end; sequence++ {
		*o.slot(sequence) = *old.slot(sequence)
	}
}

// advance says that the requests below a sequence are answered, and calls answered with the row of each.
func (o *origin) advance(below uint64, answered func(*row)) {
	if below <= o.below {
		return
	}
	for sequence := o.below; sequence < min(below, o.end); sequence++ {
		s := o.slot(sequence)
		if s.row != nil && !s.row.gone {
			answered(s.row)
		}
		*s = slot{}
	}
	o.below, o.end = below, max(o.end, below)
}
