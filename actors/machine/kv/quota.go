package kv

import (
	"fmt"
	"math"

	"queen/store/layout"
)

// NoLimit is a quota that refuses nothing.
const NoLimit = math.MaxUint64

// Quota bounds what a tenant may have (state 11.3); NoLimit where it does not.
type Quota struct{ Rows, Bytes uint64 }

// spentScan bounds the rows that are counted as expired when a quota is judged.
const spentScan = 1024

// hold refuses a plan that grows beyond a quota. Rows that have expired count as none here too; they are looked for only when
// they could make the difference, and a bounded number of them, for they are about to be swept.
func (p *Plan) hold(r Reader, quota Quota) error {
	rows, bytes := p.growth()
	if rows <= 0 && bytes <= 0 {
		return nil
	}
	usage, err := UsageOf(r, p.tenant)
	if err != nil || !beyond(quota, usage, rows, bytes) {
		return err
	}
	spent, err := p.spent(r)
	if err != nil {
		return err
	}
	usage.Rows -= min(spent.Rows, usage.Rows)
	usage.Bytes -= min(spent.Bytes, usage.Bytes)
	if beyond(quota, usage, rows, bytes) {
		p.refuse(CodeQuota, fmt.Sprintf("the tenant has %d rows with %d bytes, its quota has no room for more", usage.Rows, usage.Bytes))
	}
	return nil
}

// growth is by how much the plan changes what is live of the tenant.
func (p *Plan) growth() (rows, bytes int64) {
	for i := range p.changes {
		c := &p.changes[i]
		if !c.remove {
			rows++
			bytes += int64(c.at.charge(len(c.value)))
		}
		if c.old.live(p.nowMicros) {
			rows--
			bytes -= int64(c.at.charge(c.old.valueBytes()))
		}
	}
	return rows, bytes
}

// beyond tells whether growth leads beyond a quota; what does not grow is never refused, however much there is.
func beyond(quota Quota, usage Usage, rows, bytes int64) bool {
	return rows > 0 && usage.Rows+uint64(rows) > quota.Rows || bytes > 0 && usage.Bytes+uint64(bytes) > quota.Bytes
}

// spent is what the tenant has in rows that have expired.
func (p *Plan) spent(r Reader) (spent Usage, err error) {
	visited := 0
	scanned := r.Scan([]byte{layout.FamilyKVExpiry}, layout.KVExpiryFrom(p.counters.sweptMicros), func(key, value []byte) bool {
		instant, row, ok := layout.KVIndexed(key)
		if instant > p.nowMicros {
			return false
		}
		tenant, _, _, isRow := layout.KVPlace(row)
		if !ok || !isRow {
			err = fmt.Errorf("read expiry of a row: %w", ErrBadRow)
			return false
		}
		var bytes uint64
		if err = numbers("expiry of a row", value, &bytes); err != nil {
			return false
		}
		if tenant == p.tenant {
			spent.Rows++
			spent.Bytes += bytes
		}
		visited++
		return visited < spentScan
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list rows that have expired: %w", scanned)
	}
	return spent, err
}
