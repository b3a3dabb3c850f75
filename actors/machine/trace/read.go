package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"queen/store/layout"
)

// Reads finds traces for one request. It needs no machine: everything is in the view.
type Reads struct {
	Reader Reader
	// Check is asked now and then whether to go on; its error ends the read.
	Check func() error
}

// checkEvery is how many keys pass between two calls of Check.
const checkEvery = 256

// AddressMost bounds the traces that are shown of one address: the newest ones. It is the longest page of the other lists.
const AddressMost = 10_000

// Stored is a trace as it is read.
type Stored struct {
	Row
	Record
}

// Name is what is known of a trace name.
type Name struct {
	Name            string
	Traces          uint64
	Messages        uint64
	LastStampMicros uint64
}

// errStop ends a walk whose caller has enough.
var errStop = errors.New("the walk has ended")

// walker checks the context of a walk over keys.
func (q *Reads) walker(visit func(key []byte) error) (step func(key, value []byte) bool, failure *error) {
	failure = new(error)
	visited := 0
	return func(key, _ []byte) bool {
		if visited++; visited%checkEvery == 0 {
			*failure = q.Check()
		}
		if *failure == nil {
			*failure = visit(key)
		}
		return *failure == nil
	}, failure
}

// walked is the error of a walk.
func walked(what string, scanned, failure error) error {
	if failure == nil {
		failure = scanned
	}
	if failure == nil || errors.Is(failure, errStop) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, failure)
}

// At visits the traces of an address, the newest first, at most AddressMost of them.
func (q *Reads) At(tenant uuid.UUID, partition, txid string, visit func(*Stored) (more bool, err error)) error {
	_, _, canonical, err := Resolve(q.Reader, partition)
	if err != nil {
		return err
	}
	c, err := readCounters(q.Reader)
	if err != nil {
		return err
	}
	address := AddressOf(tenant, canonical, txid)
	var numbers []uint64
	// Upwards from the oldest trace that is left, and not downwards: at the low end are the deleted keys.
	step, failure := q.walker(func(key []byte) error {
		if numbers = append(numbers, layout.LastNumber(key)); len(numbers) == 2*AddressMost {
			numbers = append(numbers[:0], numbers[AddressMost:]...)
		}
		return nil
	})
	scanned := q.Reader.Scan(layout.TracesAt(address), layout.TraceAt(address, c.oldest), step)
	if err := walked("list traces of an address", scanned, *failure); err != nil {
		return err
	}
	numbers = numbers[max(0, len(numbers)-AddressMost):]
	slices.Reverse(numbers)
	return q.load(numbers, func(trace *Stored) (bool, error) {
		if trace.Tenant != tenant || trace.Partition != canonical || trace.Txid != txid {
			return true, nil // another address with the same hash
		}
		return visit(trace)
	})
}

// Page is a piece of a list: Limit elements after the first Skip.
type Page struct{ Skip, Limit uint64 }

// Named visits the traces of a name, the newest first, and returns how many there are in all.
func (q *Reads) Named(tenant uuid.UUID, name string, page Page, visit func(*Stored) (more bool, err error)) (total uint64, err error) {
	id, err := nameID(q.Reader, tenant, name)
	if err != nil || id == 0 {
		return 0, err
	}
	row, err := readName(q.Reader, id)
	if err != nil {
		return 0, err
	}
	if page.Skip >= row.traces {
		return row.traces, nil
	}
	var numbers []uint64
	most := min(page.Limit, row.traces-page.Skip)
	skipped := uint64(0)
	step, failure := q.walker(func(key []byte) error {
		if skipped < page.Skip {
			skipped++
			return nil
		}
		// The walk ends with the oldest trace: what follows are deleted keys.
		if numbers = append(numbers, layout.LastNumber(key)); uint64(len(numbers)) == most {
			return errStop
		}
		return nil
	})
	scanned := q.Reader.ScanReverse(layout.TracesNamed(id), nil, step)
	if err := walked("list traces of a name", scanned, *failure); err != nil {
		return 0, err
	}
	return row.traces, q.load(numbers, visit)
}

// load reads the traces with the given numbers one after the other.
func (q *Reads) load(numbers []uint64, visit func(*Stored) (more bool, err error)) error {
	for _, number := range numbers {
		if err := q.Check(); err != nil {
			return err
		}
		trace, err := read(q.Reader, number)
		if err != nil {
			return err
		}
		if more, err := visit(trace); err != nil || !more {
			return err
		}
	}
	return nil
}

func read(r Reader, number uint64) (*Stored, error) {
	value, err := r.Get(layout.Trace(number))
	if err != nil {
		return nil, fmt.Errorf("read trace %d: %w", number, err)
	}
	row, err := DecodeRow(number, value)
	if err != nil {
		return nil, err
	}
	var record *Record
	if row.Chunk == nil {
		record, err = decodeRecord(row.Inline)
	} else {
		err = r.Chunk(*row.Chunk, func(chunk []byte) (err error) {
			record, err = decodeRecord(chunk)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read record of trace %d: %w", number, err)
	}
	return &Stored{Row: *row, Record: *record}, nil
}

// Names lists the names of a tenant, the most recently seen first, and returns how many there are in all. Names that were
// seen in one trace are in the order in which they were first used.
func (q *Reads) Names(tenant uuid.UUID, page Page) (names []Name, total uint64, err error) {
	value, err := q.Reader.Get(layout.TraceNameCount(tenant))
	if err != nil {
		return nil, 0, fmt.Errorf("count trace names: %w", err)
	}
	total, err = number64(value)
	if err != nil || page.Skip >= total {
		return nil, total, err
	}
	ids, before, err := q.seen(tenant, Page{Skip: page.Skip, Limit: min(page.Limit, total-page.Skip)}, total)
	if err != nil {
		return nil, 0, err
	}
	ordered, err := q.inOrder(ids)
	if err != nil {
		return nil, 0, err
	}
	first := page.Skip - before
	ordered = ordered[first:min(first+page.Limit, uint64(len(ordered)))]
	for _, row := range ordered {
		names = append(names, Name{Name: row.name, Traces: row.traces, Messages: row.messages, LastStampMicros: row.lastStampMicros})
	}
	return names, total, nil
}

// seen lists the ids of the names of all minutes that a page touches, whole minutes. before is how many names come in front
// of them.
func (q *Reads) seen(tenant uuid.UUID, page Page, total uint64) (ids []uint64, before uint64, err error) {
	prefix := layout.TraceNamesSeen(tenant)
	minuteEnd := len(prefix) + 8
	var minute string
	visited := uint64(0)
	step, failure := q.walker(func(key []byte) error {
		if next := string(key[:minuteEnd]); next != minute {
			minute = next
			if visited >= page.Skip+page.Limit {
				return errStop
			}
			if visited <= page.Skip {
				ids, before = ids[:0], visited
			}
		}
		ids = append(ids, layout.LastNumber(key))
		if visited++; visited == total {
			return errStop
		}
		return nil
	})
	scanned := q.Reader.Scan(prefix, nil, step)
	return ids, before, walked("list trace names", scanned, *failure)
}

// inOrder reads names and sorts them by their newest trace, the latest first.
func (q *Reads) inOrder(ids []uint64) ([]*nameRow, error) {
	rows := make([]*nameRow, len(ids))
	order := make(map[*nameRow]uint64, len(ids))
	for i, id := range ids {
		if i%checkEvery == 0 {
			if err := q.Check(); err != nil {
				return nil, err
			}
		}
		row, err := readName(q.Reader, id)
		if err != nil {
			return nil, err
		}
		rows[i], order[row] = row, id
	}
	slices.SortFunc(rows, func(a, b *nameRow) int {
		return cmp.Or(cmp.Compare(b.lastNumber, a.lastNumber), cmp.Compare(order[a], order[b]))
	})
	return rows, nil
}

// Total is the number of traces that are stored.
func Total(r Reader) (uint64, error) {
	c, err := readCounters(r)
	return c.stored, err
}

// OldestStampMicros is the time of the oldest trace; 0 when there is none.
func OldestStampMicros(r Reader) (stampMicros uint64, err error) {
	c, err := readCounters(r)
	if err != nil || c.stored == 0 {
		return 0, err
	}
	scanned := r.Scan([]byte{layout.FamilyTrace}, layout.Trace(c.oldest), func(key, value []byte) bool {
		var row *Row
		if row, err = DecodeRow(layout.LastNumber(key), value); err == nil {
			stampMicros = row.StampMicros
		}
		return false
	})
	return stampMicros, errors.Join(err, scanned)
}
