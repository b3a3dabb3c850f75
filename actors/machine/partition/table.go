package partition

// table is an open-addressing hash table from fingerprints to positions. A fingerprint stands in it once, with the
// position that came first; what shares a fingerprint is the business of the owner. Entries cannot be removed.
type table struct {
	// slots hold fingerprint << 32 | position + 1; 0 is free. Their number is a power of two.
	slots []uint64
	count int
}

// minSlots keeps the table of a handful of messages at 64 bytes.
const minSlots = 8

// newTable returns a table with room for some entries.
func newTable(entries int) table {
	size := minSlots
	for size*3 < entries*4 {
		size *= 2
	}
	return table{slots: make([]uint64, size)}
}

// find returns the position of a fingerprint.
func (t *table) find(fp uint32) (position uint32, found bool) {
	mask := uint32(len(t.slots) - 1)
	for i := fp & mask; ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == 0 {
			return 0, false
		}
		if uint32(slot>>32) == fp {
			return uint32(slot) - 1, true
		}
	}
}

// add enters a fingerprint unless it is there already, and then returns its first position and true. position must be
// below 1<<32 - 1.
func (t *table) add(fp, position uint32) (first uint32, existed bool) {
	if (t.count+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	mask := uint32(len(t.slots) - 1)
	i := fp & mask
	for ; t.slots[i] != 0; i = (i + 1) & mask {
		if uint32(t.slots[i]>>32) == fp {
			return uint32(t.slots[i]) - 1, true
		}
	}
	t.slots[i] = uint64(fp)<<32 | uint64(position+1)
	t.count++
	return position, false
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]uint64, 2*len(old))
	mask := uint32(len(t.slots) - 1)
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		i := uint32(slot>>32) & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = slot
	}
}

// hashSet finds which of the hashes of one call a stored hash is. Hashes with one fingerprint are chained.
type hashSet struct {
	table
	// hashes holds 16 bytes per entry; chain the next entry with the same fingerprint, by entry.
	hashes []byte
	chain  map[uint32]uint32
}

func newHashSet(hashes []byte) hashSet {
	return hashSet{table: newTable(len(hashes) / hashBytes), hashes: hashes}
}

func (s *hashSet) at(entry uint32) []byte {
	return s.hashes[int(entry)*hashBytes : int(entry+1)*hashBytes]
}

// enter adds an entry; when its hash is there already it returns the entry that came first and true.
func (s *hashSet) enter(entry uint32) (first uint32, existed bool) {
	hash := s.at(entry)
	other, existed := s.add(fingerprint(hash), entry)
	if !existed {
		return entry, false
	}
	for {
		if equalHash(s.at(other), hash) {
			return other, true
		}
		next, chained := s.chain[other]
		if !chained {
			break
		}
		other = next
	}
	if s.chain == nil {
		s.chain = make(map[uint32]uint32)
	}
	s.chain[other] = entry
	return entry, false
}

// lookup returns the entry with a hash.
func (s *hashSet) lookup(hash []byte) (entry uint32, found bool) {
	entry, found = s.find(fingerprint(hash))
	for found && !equalHash(s.at(entry), hash) {
		entry, found = s.chain[entry]
	}
	return entry, found
}

func equalHash(a, b []byte) bool { return string(a) == string(b) }
