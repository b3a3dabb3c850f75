package api

import "testing"

// The state of a group (messaging 10.1): a lag beyond 300 s decides before what it has consumed. The contract test of it
// takes five minutes.
func TestAGroupLagsBeyondFiveMinutes(t *testing.T) {
	for _, c := range []struct {
		lag      float64
		consumed uint64
		want     string
	}{{0, 0, "Dead"}, {300, 0, "Dead"}, {0, 1, "Stable"}, {300, 1, "Stable"}, {300.001, 0, "Lagging"}, {300.001, 1, "Lagging"}} {
		row := groupRow{MaxTimeLag: c.lag, consumed: c.consumed}
		if row.finish(); row.State != c.want {
			t.Errorf("%v s behind, %d consumed: want %s, got %s", c.lag, c.consumed, c.want, row.State)
		}
	}
}
