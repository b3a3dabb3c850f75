package cluster

// Everything below cuts by whole links. A rule that stands already is replaced.

// Isolate cuts a node off from all others, both ways.
func (n *Network) Isolate(id uint64) {
	for other := range n.listeners {
		if other != id {
			n.cut(id, other)
		}
	}
}

// Split cuts the nodes into parts that hear nothing of each other. A node that no part names is alone.
func (n *Network) Split(parts ...[]uint64) {
	part := map[uint64]int{}
	for i, members := range parts {
		for _, id := range members {
			part[id] = i + 1
		}
	}
	n.eachPair(func(a, b uint64) bool { return part[a] == 0 || part[a] != part[b] })
}

// Bridge cuts the nodes into two parts which only one node hears both of.
func (n *Network) Bridge(bridge uint64, left, right []uint64) {
	part := map[uint64]int{}
	for _, id := range left {
		part[id] = 1
	}
	for _, id := range right {
		part[id] = 2
	}
	n.eachPair(func(a, b uint64) bool { return a != bridge && b != bridge && part[a] != part[b] })
}

// Ring lets each node hear as many neighbours in the ring as make a majority with itself. No two majorities are the same
// where there are five nodes or more; with three everybody hears everybody.
func (n *Network) Ring(ids []uint64) {
	place := map[uint64]int{}
	for i, id := range ids {
		place[id] = i
	}
	reach := (len(ids)/2 + 1) / 2 // neighbours on each side
	n.eachPair(func(a, b uint64) bool {
		distance := (place[a] - place[b] + len(ids)) % len(ids)
		return min(distance, len(ids)-distance) > reach
	})
}

// Mute cuts what a node says to the others; it still hears them.
func (n *Network) Mute(id uint64) {
	for other := range n.listeners {
		if other != id {
			n.Set(Link{id, other}, Rule{Cut: true})
		}
	}
}

// Deafen cuts what the others say to a node, or only what comes in chunks of so many bytes and more; 0 is everything.
func (n *Network) Deafen(id uint64, bytes int) {
	for other := range n.listeners {
		if other != id {
			n.Set(Link{other, id}, Rule{Cut: bytes == 0, Deaf: bytes})
		}
	}
}

// eachPair cuts every pair of nodes that the function names.
func (n *Network) eachPair(apart func(a, b uint64) bool) {
	for a := range n.listeners {
		for b := range n.listeners {
			if a < b && apart(a, b) {
				n.cut(a, b)
			}
		}
	}
}

func (n *Network) cut(a, b uint64) {
	n.Set(Link{a, b}, Rule{Cut: true})
	n.Set(Link{b, a}, Rule{Cut: true})
}
