package partition

import "fmt"

const (
	// consumedMessages is how many retained messages below a cursor are recognised as committed whatever their age
	// (messaging 6.7).
	consumedMessages = 65_536
	// resolveAheadMessages is how far beyond the number of its items a look-up walks before it asks the index: acks come
	// in log order from the cursor on.
	resolveAheadMessages = 64
)

// ResolveInput asks where the messages of an ack call stand.
type ResolveInput struct {
	// Hashes are those of the txids, see HashTxid.
	Hashes []Hash
	// From and End bound the range, End exclusive: the leased batch, or everything from the cursor to the tail.
	From, End uint64
	// Leased makes messages of the range resolve whatever their age (messaging 6.4.4).
	Leased           bool
	NowMicros        uint64
	HashWindowMicros uint64
}

// ResolutionKind says where a txid was found.
type ResolutionKind uint8

const (
	// Unknown: nowhere where it counts.
	Unknown ResolutionKind = iota
	// InRange: in the range; Offset is the lowest one there.
	InRange
	// Below: only below the range, inside the hash window or among the last 65,536 retained messages; Offset is the
	// highest such one.
	Below
)

// Resolution is the answer for one txid.
type Resolution struct {
	Kind   ResolutionKind
	Offset uint64
}

// Resolve finds the messages of an ack call (messaging 6.4.4, 6.7). The answers are in the order of the hashes. Messages
// that retention has removed are never in range.
func (m *Machine) Resolve(r Reader, in ResolveInput) ([]Resolution, error) {
	answers := make([]Resolution, len(in.Hashes))
	if len(in.Hashes) == 0 || m.head.Tail == 0 {
		return answers, nil
	}
	hashes := make([]byte, 0, len(in.Hashes)*hashBytes)
	for i := range in.Hashes {
		hashes = append(hashes, in.Hashes[i][:]...)
	}
	q := resolver{m: m, log: m.log(r), in: &in, set: newHashSet(hashes), answers: answers,
		from: max(in.From, m.head.LogStart), end: min(in.End, m.head.Tail)}
	q.oldest = cutoff(in.NowMicros, in.HashWindowMicros)
	var again []repeat
	q.asked = make([]uint32, 0, len(answers))
	for i := range uint32(len(answers)) {
		if first, existed := q.set.enter(i); existed {
			again = append(again, repeat{item: i, first: first})
		} else {
			q.asked = append(q.asked, i)
		}
	}
	q.open = len(q.asked)
	if err := q.resolve(); err != nil {
		return nil, fmt.Errorf("resolve txids in partition %d: %w", m.partition, err)
	}
	for _, a := range again {
		answers[a.item] = answers[a.first]
	}
	return answers, nil
}

// resolver is one call of Resolve.
type resolver struct {
	m       *Machine
	log     *log
	in      *ResolveInput
	set     hashSet
	answers []Resolution
	// asked are the items that are not repeats, open counts those of them without an answer.
	asked     []uint32
	open      int
	from, end uint64
	// oldest is the oldest stamp inside the hash window.
	oldest uint64
}

func (q *resolver) resolve() error {
	oldestInRange := q.oldest
	if q.in.Leased {
		oldestInRange = 0
	}
	ahead := min(q.end, q.from+uint64(len(q.answers))+resolveAheadMessages)
	if err := q.walk(q.from, ahead, oldestInRange, InRange); err != nil || q.open == 0 {
		return err
	}
	x, err := q.m.indexFor(q.log, q.in.NowMicros, q.in.HashWindowMicros)
	if err != nil {
		return err
	}
	inlineBase := q.m.head.inlineBase
	floor := x.floor(inlineBase)
	if err := q.above(x, max(ahead, q.from), floor, oldestInRange); err != nil || q.open == 0 {
		return err
	}
	return q.below(x, floor)
}

// above looks in the range from at on for the lowest offsets: what the index does not cover, what it covers, what stands
// in the head.
func (q *resolver) above(x *index, at, floor, oldest uint64) error {
	inlineBase := q.m.head.inlineBase
	if q.in.Leased {
		if err := q.walk(at, min(q.end, floor), oldest, InRange); err != nil || q.open == 0 {
			return err
		}
	}
	if err := q.search(x, max(at, floor), min(q.end, inlineBase), oldest, nowhere, InRange); err != nil || q.open == 0 {
		return err
	}
	return q.walk(max(at, inlineBase), q.end, oldest, InRange)
}

// below looks under the range for the highest offsets.
func (q *resolver) below(x *index, floor uint64) error {
	inlineBase := q.m.head.inlineBase
	consumed := q.m.head.LogStart
	if q.from > consumedMessages {
		consumed = max(consumed, q.from-consumedMessages)
	}
	if err := q.walk(max(inlineBase, consumed), q.from, 0, Below); err != nil || q.open == 0 {
		return err
	}
	if err := q.walk(inlineBase, min(q.from, consumed), q.oldest, Below); err != nil || q.open == 0 {
		return err
	}
	if err := q.search(x, 0, min(q.from, inlineBase), q.oldest, consumed, Below); err != nil || q.open == 0 {
		return err
	}
	return q.walk(consumed, min(q.from, floor), 0, Below)
}

// walk compares the messages of [from, end) that are stamped at or after oldest with the open txids. In range the first
// one found counts, below it the last one.
func (q *resolver) walk(from, end, oldest uint64, kind ResolutionKind) error {
	if from >= end {
		return nil
	}
	closed := 0
	err := q.log.ascend(from, end, func(a *Append) (bool, error) {
		if a.StampMicros < oldest {
			return true, nil
		}
		hashes, err := hashesOf(q.log.r, a)
		if err != nil {
			return false, err
		}
		last := min(end, a.End())
		for offset := max(from, a.Base); offset < last; offset++ {
			at := (offset - a.Base) * hashBytes
			entry, found := q.set.lookup(hashes[at : at+hashBytes])
			if !found {
				continue
			}
			answer := &q.answers[entry]
			if answer.Kind == Unknown {
				closed++
				*answer = Resolution{Kind: kind, Offset: offset}
			} else if answer.Kind == Below && kind == Below && answer.Offset < offset {
				answer.Offset = offset
			}
			if kind == InRange && closed == q.open {
				return false, nil
			}
		}
		return true, nil
	})
	q.open -= closed
	return err
}

// search asks the index for the open txids in [low, high).
func (q *resolver) search(x *index, low, high, oldest, acceptFrom uint64, kind ResolutionKind) error {
	if x == nil || low >= high {
		return nil
	}
	var unknown []uint32
	for _, i := range q.asked {
		if q.answers[i].Kind == Unknown {
			unknown = append(unknown, i)
		}
	}
	var searches []search
	for _, i := range x.promising(&q.set, unknown, low, high) {
		searches = append(searches, search{entry: i, trail: x.trail(q.set.at(i), low, high, kind == Below), oldestMicros: oldest,
			acceptFrom: acceptFrom})
	}
	f := finder{log: q.log}
	if err := f.run(&q.set, searches); err != nil {
		return err
	}
	for i := range searches {
		if searches[i].found {
			q.answers[searches[i].entry] = Resolution{Kind: kind, Offset: searches[i].proposal}
			q.open--
		}
	}
	return nil
}
