package kv

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"queen/raftlog/command"
	"queen/store/layout"
)

const (
	// defaultPageRows and maxPageRows are the limits of a page (state 2.8, 2.11).
	defaultPageRows = 100
	maxPageRows     = 1000
	// expiredScan bounds the rows that a page passes over because they have expired. A page that ends for that has fewer
	// rows than it could have, and the next one goes on behind them.
	expiredScan = 10_000
)

// budget is what the reads of a call may still return. The value that exceeds it is returned; then a read ends (state 2.8).
type budget struct {
	left  int64
	bytes uint64
}

func (b *budget) take(value []byte) {
	b.left -= int64(len(value))
	b.bytes += uint64(len(value))
}

func (b *budget) exceeded() bool { return b.left < 0 }

// read evaluates the reads of the plan.
func (p *Plan) read(r Reader) (*command.KVResult, error) {
	budget := &budget{left: int64(p.limits.ReadBytes)}
	for i := range p.ops {
		var err error
		switch op, result := &p.ops[i], &p.results[i]; op.Kind {
		case command.KVGet:
			err = p.get(r, op, result, budget)
		case command.KVGetMany:
			err = p.getMany(r, op, result, budget)
		case command.KVGetPrefix:
			err = p.getPrefix(r, op, result, budget)
		}
		if err != nil {
			return nil, fmt.Errorf("read kv operation %d: %w", i, err)
		}
	}
	return &command.KVResult{Ops: p.results}, nil
}

// get has nothing to cut off: it counts against the budget and is not bound by it.
func (p *Plan) get(r Reader, op *command.KVOp, result *command.KVOpResult, budget *budget) error {
	row, err := readRow(r, p.tenant, place{op.Namespace, op.Key})
	if err != nil || !row.live(p.nowMicros) {
		return err
	}
	result.Found, result.Version = true, row.Version
	result.ExpiresMicros, result.UpdatedMicros = row.ExpiresMicros, row.UpdatedMicros
	result.Value, err = row.value(r)
	budget.take(result.Value)
	return err
}

func (p *Plan) getMany(r Reader, op *command.KVOp, result *command.KVOpResult, budget *budget) error {
	order := make([]uint32, len(op.Keys))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return bytes.Compare([]byte(op.Keys[a]), []byte(op.Keys[b])) })
	for n, i := range order {
		key := op.Keys[i]
		if n > 0 && key == op.Keys[order[n-1]] {
			continue
		}
		row, err := readRow(r, p.tenant, place{op.Namespace, key})
		if err != nil {
			return err
		}
		if !row.live(p.nowMicros) {
			result.Missing = append(result.Missing, i)
			continue
		}
		if len(result.Rows) > 0 && budget.exceeded() {
			result.Truncated = true
			break
		}
		shown, err := show(r, key, row, false, budget)
		if err != nil {
			return err
		}
		result.Rows = append(result.Rows, shown)
	}
	slices.Sort(result.Missing)
	return nil
}

func (p *Plan) getPrefix(r Reader, op *command.KVOp, result *command.KVOpResult, budget *budget) error {
	page := page{
		tenant: p.tenant, namespace: op.Namespace, prefix: op.Key, after: op.After, limit: pageRows(op.Limit), keysOnly: op.KeysOnly,
		nowMicros: p.nowMicros, budget: budget,
	}
	err := page.walk(r, func(row command.KVRow, _ bool) { result.Rows = append(result.Rows, row) })
	result.Truncated, result.After = page.truncated, page.next
	return err
}

// pageRows clamps a limit; 0 is none.
func pageRows(limit uint32) int {
	if limit == 0 {
		return defaultPageRows
	}
	return int(min(limit, maxPageRows))
}

// show is a row as readers see it; its value counts against the budget.
func show(r Reader, key string, row *Row, keyOnly bool, budget *budget) (command.KVRow, error) {
	shown := command.KVRow{Key: key, Version: row.Version, ExpiresMicros: row.ExpiresMicros, UpdatedMicros: row.UpdatedMicros}
	if keyOnly {
		return shown, nil
	}
	value, err := row.value(r)
	budget.take(value)
	shown.Value = value
	return shown, err
}

// page is one walk over the keys of a namespace that begin with a prefix, in the order of their bytes.
type page struct {
	tenant            uuid.UUID
	namespace, prefix string
	// after is exclusive; empty begins at the front.
	after     string
	limit     int
	keysOnly  bool
	expired   bool // show rows that have expired
	nowMicros uint64
	budget    *budget

	// truncated tells that there is more, behind the key next.
	truncated bool
	next      string
}

// walk visits the rows of the page. One row at least is visited when there is one, whatever the budget: so a reader that
// goes on page by page always gets on.
func (p *page) walk(r Reader, visit func(row command.KVRow, expired bool)) (err error) {
	rowsOf := layout.KVRowsOf(p.tenant, p.namespace)
	var from []byte
	if p.after != "" {
		from = append(layout.KV(p.tenant, p.namespace, p.after), 0)
	}
	rows, passed := 0, 0
	visited, last := "", "" // the last row, and the last that is shown
	scanned := r.Scan(layout.KV(p.tenant, p.namespace, p.prefix), from, func(key, value []byte) bool {
		var row *Row
		if row, err = DecodeRow(value); err != nil {
			return false
		}
		expired := !row.live(p.nowMicros)
		hidden := expired && !p.expired
		switch {
		case !hidden && (rows == p.limit || rows > 0 && p.budget.exceeded()):
			p.truncated, p.next = true, last
			return false
		case passed == expiredScan:
			p.truncated, p.next = true, visited
			return false
		}
		visited = string(key[len(rowsOf):])
		if hidden {
			passed++
			return true
		}
		var shown command.KVRow
		if shown, err = show(r, visited, row, p.keysOnly, p.budget); err != nil {
			return false
		}
		rows, last = rows+1, visited
		visit(shown, expired)
		return true
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list kv rows: %w", scanned)
	}
	return err
}
