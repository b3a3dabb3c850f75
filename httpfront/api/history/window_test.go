package history

import (
	"testing"
	"time"
)

func TestBucketWidthFollowsTheLengthOfTheWindow(t *testing.T) {
	to := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	for length, want := range map[time.Duration]int64{
		0: 1, time.Minute: 1, time.Hour: 1, time.Hour + time.Millisecond: 5, 6 * time.Hour: 5, 6*time.Hour + time.Second: 15,
		24 * time.Hour: 15, 25 * time.Hour: 60, 7 * 24 * time.Hour: 60, 7*24*time.Hour + time.Minute: 360, 9000 * time.Hour: 360,
		-time.Hour: 1,
	} {
		if got := NewWindow(to.Add(-length), to).BucketMinutes; got != want {
			t.Errorf("%v: want %d, got %d", length, want, got)
		}
	}
}

func TestBucketsCoverTheWindowUpToNow(t *testing.T) {
	at := func(minute, second int) time.Time { return time.Date(2026, 1, 31, 12, minute, second, 0, time.UTC) }
	cases := []struct {
		from, to, now time.Time
		want          int
	}{
		{at(0, 0), at(10, 0), at(30, 0), 10},
		{at(0, 30), at(10, 30), at(30, 0), 11},
		{at(0, 0), at(10, 0), at(4, 30), 5},
		{at(10, 0), at(0, 0), at(30, 0), 0},
		{at(20, 0), at(30, 0), at(10, 0), 0},
	}
	for _, c := range cases {
		buckets := NewWindow(c.from, c.to).Buckets(c.now)
		if len(buckets) != c.want {
			t.Errorf("%v to %v at %v: want %d, got %d", c.from, c.to, c.now, c.want, len(buckets))
		}
		for i, bucket := range buckets {
			if bucket%60_000 != 0 || i > 0 && bucket != buckets[i-1]+60_000 {
				t.Errorf("bucket %d begins at %d", i, bucket)
			}
		}
	}
	long := NewWindow(time.Unix(0, 0), at(0, 0)).Buckets(at(0, 0))
	if len(long) > maxBuckets || long[len(long)-1]+widestMinutes*60_000 < at(0, 0).UnixMilli() {
		t.Errorf("got %d buckets up to %d", len(long), long[len(long)-1])
	}
}

func TestRatesDivideByWhatHasPassed(t *testing.T) {
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	w := NewWindow(begin.Add(-30*time.Minute), begin.Add(30*time.Second))
	for name, c := range map[string]struct {
		bucket, now time.Time
		want        float64
	}{
		"whole":       {begin.Add(-10 * time.Minute), begin, 60},
		"running":     {begin, begin.Add(20 * time.Second), 20},
		"cut by to":   {begin, begin.Add(time.Hour), 30},
		"just begun":  {begin, begin, 1},
		"in the past": {begin.Add(-30 * time.Minute), begin, 60},
	} {
		if got := w.Seconds(c.bucket.UnixMilli(), c.now); got != c.want {
			t.Errorf("%s: want %v s, got %v", name, c.want, got)
		}
	}
}
