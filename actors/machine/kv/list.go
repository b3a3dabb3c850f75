package kv

import (
	"fmt"

	"github.com/google/uuid"

	"queen/raftlog/command"
	"queen/store/layout"
)

// Namespaces visits the namespaces of a tenant in the order of their bytes with the number of rows that are stored in each,
// expired ones included (state 2.11), until visit returns false.
func Namespaces(r Reader, tenant uuid.UUID, visit func(namespace string, rows uint64) bool) (err error) {
	prefix := layout.KVNamespacesOf(tenant)
	scanned := r.Scan(prefix, nil, func(key, value []byte) bool {
		var rows uint64
		if err = numbers("rows of a namespace", value, &rows); err != nil {
			return false
		}
		return visit(string(key[len(prefix):]), rows)
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list kv namespaces: %w", scanned)
	}
	return err
}

// ListInput is what a page of the console shows (state 2.11).
type ListInput struct {
	Tenant    uuid.UUID
	Namespace string
	// Prefix may be empty, After too.
	Prefix, After string
	// Limit is how many rows the page has at most; 0 means that none was given.
	Limit    uint32
	KeysOnly bool
	// IncludeExpired shows the rows that have expired and are still stored.
	IncludeExpired bool
	// NowMicros is the one instant at which rows are judged.
	NowMicros uint64
	// ReadBytes is how many bytes of values a page has; the row that exceeds it is its last.
	ReadBytes uint32
}

// ListedRow is a row of a page.
type ListedRow struct {
	command.KVRow
	Expired bool
}

// Listed is a page; After is where the next one begins when it is truncated.
type Listed struct {
	Rows      []ListedRow
	Truncated bool
	After     string
	// Bytes is the size of the values.
	Bytes uint64
}

// List reads a page of a namespace.
func List(r Reader, in *ListInput) (*Listed, error) {
	listed := &Listed{}
	budget := &budget{left: int64(in.ReadBytes)}
	page := page{
		tenant: in.Tenant, namespace: in.Namespace, prefix: in.Prefix, after: in.After, limit: pageRows(in.Limit), keysOnly: in.KeysOnly,
		expired: in.IncludeExpired, nowMicros: in.NowMicros, budget: budget,
	}
	err := page.walk(r, func(row command.KVRow, expired bool) {
		listed.Rows = append(listed.Rows, ListedRow{KVRow: row, Expired: expired})
	})
	listed.Truncated, listed.After, listed.Bytes = page.truncated, page.next, budget.bytes
	return listed, err
}
