package history

import (
	"time"

	"github.com/google/uuid"
)

// Window is a span of time cut into buckets (messaging 14).
type Window struct {
	// FromMs is inclusive, ToMs exclusive, in Unix milliseconds.
	FromMs, ToMs  int64
	BucketMinutes int64
}

// widths are the bucket widths: up to how many minutes each is used.
var widths = []struct{ upToMinutes, bucketMinutes int64 }{{60, 1}, {6 * 60, 5}, {24 * 60, 15}, {7 * 24 * 60, 60}}

// widestMinutes is the bucket width of everything longer.
const widestMinutes = 360

const msPerMinute = 60_000

// NewWindow cuts a span into buckets. A span that ends before it begins is empty.
func NewWindow(from, to time.Time) Window {
	w := Window{FromMs: from.UnixMilli(), ToMs: to.UnixMilli(), BucketMinutes: widestMinutes}
	for _, width := range widths {
		if w.ToMs-w.FromMs <= width.upToMinutes*msPerMinute {
			w.BucketMinutes = width.bucketMinutes
			break
		}
	}
	return w
}

// Bucket is the beginning of the bucket that holds an instant, in Unix milliseconds.
func (w Window) Bucket(ms int64) int64 {
	width := w.BucketMinutes * msPerMinute
	return ms - ms%width
}

// Seconds is how much of a bucket lies in the window and has passed by now, at least one second: what rates divide by.
func (w Window) Seconds(bucketMs int64, now time.Time) float64 {
	end := min(bucketMs+w.BucketMinutes*msPerMinute, w.ToMs, now.UnixMilli())
	return max(float64(end-max(bucketMs, w.FromMs))/1000, 1)
}

// Buckets lists the beginnings of the buckets that end up to now, oldest first; at most maxBuckets, the newest ones.
func (w Window) Buckets(now time.Time) []int64 {
	width := w.BucketMinutes * msPerMinute
	last := min(w.ToMs, now.UnixMilli()+1)
	first := max(w.Bucket(w.FromMs), w.Bucket(last)-(maxBuckets-1)*width)
	list := []int64{}
	for at := first; at < last; at += width {
		list = append(list, at)
	}
	return list
}

// maxBuckets bounds a list of buckets: a year of the widest ones.
const maxBuckets = 1500

// EachQueueRow visits the rows of a tenant that begin in a window, oldest first. row is valid until visit returns.
func (r *Recorder) EachQueueRow(tenant uuid.UUID, w Window, visit func(bucketMs int64, row *QueueRow)) error {
	names := map[string]string{}
	for _, f := range r.queues.between(w.FromMs, w.ToMs) {
		d := decoder{data: f.data, names: names}
		bucket := w.Bucket(f.StartMs)
		var row QueueRow
		for range f.rows {
			if err := d.queueRow(&row); err != nil {
				return err
			}
			if row.Tenant == tenant {
				visit(bucket, &row)
			}
		}
	}
	return nil
}

// EachNodeRow visits the rows of the node that begin in a window, oldest first.
func (r *Recorder) EachNodeRow(w Window, visit func(bucketMs int64, row *NodeRow)) error {
	for _, f := range r.nodes.between(w.FromMs, w.ToMs) {
		d := decoder{data: f.data}
		var row NodeRow
		for range f.rows {
			if err := d.nodeRow(&row); err != nil {
				return err
			}
			visit(w.Bucket(f.StartMs), &row)
		}
	}
	return nil
}
