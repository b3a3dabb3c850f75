package partition

import (
	"fmt"
	"testing"
)

// TestMovedChunksCanMoveAgain: a bucket that holds moved chunks is emptied like any other.
func TestMovedChunksCanMoveAgain(t *testing.T) {
	r := newRig(t)
	for i := range 300 {
		if i%100 == 0 {
			r.store.OpenBucket++
		}
		r.push(fmt.Sprint("t", i))
	}
	for bucket := uint32(1); bucket < 6; bucket++ {
		r.store.OpenBucket = max(r.store.OpenBucket, bucket+1)
		for more := true; more; {
			r.load()
			out, err := r.machine.MoveChunks(r.store, r.store, MoveInput{Bucket: bucket, MaxBytes: 700})
			if err != nil {
				t.Fatal(err)
			}
			if out.Bytes > 700 {
				t.Fatalf("a step moved %d bytes", out.Bytes)
			}
			more = out.More
		}
		for ref := range r.store.Chunks {
			if ref.Bucket <= bucket {
				t.Fatalf("chunk %+v is left", ref)
			}
		}
	}
	offset, found, err := FindTxid(r.store, testQueue, testPartition, HashTxid([]byte("t250")))
	if offset != 250 || !found || err != nil {
		t.Errorf("find: %d %v %v", offset, found, err)
	}
}

// TestMoveLooksThroughBoundedPages: a step that finds nothing to copy ends all the same, and the next one goes on.
func TestMoveLooksThroughBoundedPages(t *testing.T) {
	const pages = movePages + 100
	r := newRig(t)
	txids := make([]string, 70)
	for i := range pages {
		if i == pages-1 {
			r.store.OpenBucket = 2
		}
		for k := range txids {
			txids[k] = fmt.Sprint(i, "-", k)
		}
		r.dedup = 0
		r.push(txids...)
	}
	r.store.OpenBucket = 3
	// Everything may have been moved once, so every page has to be looked at.
	r.machine.head.moves.end = r.machine.Tail()
	for step, want := range []MoveOutput{{More: true}, {Chunks: 1}} {
		r.store.NextEntry()
		got, err := r.machine.MoveChunks(r.store, r.store, MoveInput{Bucket: 2, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if got.More != want.More || got.Chunks != want.Chunks {
			t.Errorf("step %d: %+v", step, got)
		}
		r.load()
	}
}
