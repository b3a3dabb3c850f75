package kv

import (
	"fmt"

	"github.com/google/uuid"

	"queen/store/layout"
)

// account collects what a command changes in the counts, which are written once, at its end. Rows are counted as they are
// stored, expired ones included, until they are swept.
type account struct {
	counters counters
	// tenants and spaces are in the order in which they were met first.
	tenants []tenantChange
	spaces  []spaceChange
}

type tenantChange struct {
	tenant      uuid.UUID
	rows, bytes int64
}

type spaceChange struct {
	tenant    uuid.UUID
	namespace string
	rows      int64
}

// add notes a row that came, with +1, went, with -1, or changed its size.
func (a *account) add(tenant uuid.UUID, namespace string, rows, bytes int64) {
	a.counters.rows += uint64(rows)
	a.counters.bytes += uint64(bytes)
	t := a.tenant(tenant)
	t.rows += rows
	t.bytes += bytes
	if rows != 0 {
		a.space(tenant, namespace).rows += rows
	}
}

func (a *account) tenant(tenant uuid.UUID) *tenantChange {
	for i := range a.tenants {
		if a.tenants[i].tenant == tenant {
			return &a.tenants[i]
		}
	}
	a.tenants = append(a.tenants, tenantChange{tenant: tenant})
	return &a.tenants[len(a.tenants)-1]
}

func (a *account) space(tenant uuid.UUID, namespace string) *spaceChange {
	for i := range a.spaces {
		if a.spaces[i].namespace == namespace && a.spaces[i].tenant == tenant {
			return &a.spaces[i]
		}
	}
	a.spaces = append(a.spaces, spaceChange{tenant: tenant, namespace: namespace})
	return &a.spaces[len(a.spaces)-1]
}

// write brings the counts up to date.
func (a *account) write(r Reader, w Writer) error {
	for i := range a.tenants {
		t := &a.tenants[i]
		usage, err := UsageOf(r, t.tenant)
		if err != nil {
			return err
		}
		if err := changed(&usage.Rows, t.rows); err != nil {
			return err
		}
		if err := changed(&usage.Bytes, t.bytes); err != nil {
			return err
		}
		if key := layout.KVUsage(t.tenant); usage.Rows == 0 {
			w.Delete(key)
		} else {
			w.Put(key, appendNumbers(usage.Rows, usage.Bytes))
		}
	}
	for i := range a.spaces {
		if err := a.spaces[i].write(r, w); err != nil {
			return err
		}
	}
	a.counters.put(w)
	return nil
}

func (s *spaceChange) write(r Reader, w Writer) error {
	if s.rows == 0 {
		return nil
	}
	key := layout.KVNamespace(s.tenant, s.namespace)
	value, err := r.Get(key)
	if err != nil {
		return fmt.Errorf("read rows of a namespace: %w", err)
	}
	var rows uint64
	if err := numbers("rows of a namespace", value, &rows); err != nil {
		return err
	}
	if err := changed(&rows, s.rows); err != nil {
		return err
	}
	if rows == 0 {
		w.Delete(key)
	} else {
		w.Put(key, appendNumbers(rows))
	}
	return nil
}

// changed adds to a count, which never falls below zero.
func changed(count *uint64, by int64) error {
	if by < 0 && *count < uint64(-by) {
		return fmt.Errorf("lower kv count %d by %d: %w", *count, -by, ErrBadRow)
	}
	*count += uint64(by)
	return nil
}
