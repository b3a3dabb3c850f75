package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// benchStore fills a store so that reads meet tables and logs.
func benchStore(b *testing.B, rows int) (s *Store, refs []ChunkRef) {
	b.Helper()
	s = mustOpen(b, Options{Dir: b.TempDir(), Logger: zerolog.Nop()})
	b.Cleanup(func() { mustClose(b, s) })
	payload := bytes.Repeat([]byte{7}, 300)
	for i := range rows / 64 {
		batch := s.Begin(uint64(i)+1, 1)
		for k := range 64 {
			ref := batch.SetChunk(batch.ReserveChunk(), payload)
			refs = append(refs, ref)
			batch.Put(benchKey(i*64+k), ref.Append(make([]byte, 0, 64)))
		}
		s.Commit(batch, func(error) {})
	}
	batch := s.Begin(uint64(rows/64)+1, 1)
	commit(b, s, batch)
	return s, refs
}

func benchKey(n int) []byte { return fmt.Appendf(nil, "p%016d", n) }

func BenchmarkCommit64Rows64Chunks(b *testing.B) {
	s := mustOpen(b, Options{Dir: b.TempDir(), Logger: zerolog.Nop()})
	defer mustClose(b, s)
	payload := bytes.Repeat([]byte{7}, 300)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		batch := s.Begin(uint64(i)+1, 1)
		for k := range 64 {
			ref := batch.SetChunk(batch.ReserveChunk(), payload)
			batch.Put(benchKey((i*64+k)%100_000), ref.Append(make([]byte, 0, 64)))
		}
		s.Commit(batch, func(err error) {
			if err != nil {
				panic(err)
			}
		})
	}
}

// The latency of one batch alone, from Begin to done.
func BenchmarkCommitLatency(b *testing.B) {
	s := mustOpen(b, Options{Dir: b.TempDir(), Logger: zerolog.Nop()})
	defer mustClose(b, s)
	payload := bytes.Repeat([]byte{7}, 300)
	for i := range b.N {
		batch := s.Begin(uint64(i)+1, 1)
		for k := range 64 {
			ref := batch.SetChunk(batch.ReserveChunk(), payload)
			batch.Put(benchKey((i*64+k)%100_000), ref.Append(make([]byte, 0, 64)))
		}
		commit(b, s, batch)
	}
}

func BenchmarkCommit256KiB(b *testing.B) {
	s := mustOpen(b, Options{Dir: b.TempDir(), Logger: zerolog.Nop()})
	defer mustClose(b, s)
	payload := bytes.Repeat([]byte{7}, 16<<10)
	var live [][]ChunkRef
	b.SetBytes(16 * 16 << 10)
	b.ResetTimer()
	for i := range b.N {
		batch := s.Begin(uint64(i)+1, 1)
		var refs []ChunkRef
		for k := range 16 {
			ref := batch.SetChunk(batch.ReserveChunk(), payload)
			refs = append(refs, ref)
			batch.Put(benchKey((i*16+k)%10_000), ref.Append(make([]byte, 0, 64)))
		}
		if live = append(live, refs); len(live) > 800 { // 200 MB live, the rest is consumed
			for _, ref := range live[0] {
				batch.ReleaseChunk(ref)
			}
			live = live[1:]
		}
		s.Commit(batch, func(err error) {
			if err != nil {
				panic(err)
			}
		})
		if i%200 == 199 {
			durable(b, s)
		}
	}
	b.StopTimer()
	u := s.Usage()
	b.ReportMetric(float64(u.BucketDiskBytes)/float64(max(u.LiveChunkBytes, 1)), "disk/live")
}

func BenchmarkViewGetClose(b *testing.B) {
	for _, rows := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			s, _ := benchStore(b, rows)
			random := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				v := s.View()
				value, err := v.Get(benchKey(random.IntN(rows - 64)))
				if err != nil || value == nil {
					b.Fatal(value, err)
				}
				v.Close()
			}
		})
	}
}

func BenchmarkBatchGet(b *testing.B) {
	s, _ := benchStore(b, 10_000)
	batch := s.Begin(1<<40, 1)
	defer batch.Discard()
	random := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := batch.Get(benchKey(random.IntN(9_000))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChunkRead(b *testing.B) {
	s, refs := benchStore(b, 1_000_000)
	v := s.View()
	defer v.Close()
	random := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Chunk(refs[random.IntN(len(refs))], func([]byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScan100(b *testing.B) {
	s, _ := benchStore(b, 100_000)
	v := s.View()
	defer v.Close()
	random := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		err := v.Scan([]byte("p"), benchKey(random.IntN(90_000)), func(_, _ []byte) bool {
			n++
			return n < 100
		})
		if err != nil || n != 100 {
			b.Fatal(n, err)
		}
	}
}

// The longest time that a durable point under load holds up a commit, and how long it takes.
func BenchmarkDurablePointUnderLoad(b *testing.B) {
	s := mustOpen(b, Options{Dir: b.TempDir(), Logger: zerolog.Nop()})
	defer mustClose(b, s)
	payload := bytes.Repeat([]byte{7}, 2<<10)
	var worst, durableTotal time.Duration
	index := uint64(0)
	for range b.N {
		done := make(chan struct{})
		stop := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				index++
				batch := s.Begin(index, 1)
				for k := range 32 {
					ref := batch.SetChunk(batch.ReserveChunk(), payload)
					batch.Put(benchKey(int(index)*32+k), ref.Append(make([]byte, 0, 64)))
				}
				begin := time.Now()
				if err := commitErr(s, batch); err != nil {
					panic(err)
				}
				worst = max(worst, time.Since(begin))
			}
		}()
		for range 5 {
			time.Sleep(100 * time.Millisecond)
			begin := time.Now()
			durable(b, s)
			durableTotal += time.Since(begin)
		}
		close(stop)
		<-done
	}
	b.ReportMetric(float64(worst.Milliseconds()), "worst-commit-ms")
	b.ReportMetric(float64(durableTotal.Milliseconds())/float64(5*b.N), "durable-ms")
}

func BenchmarkOpen(b *testing.B) {
	o := Options{Dir: b.TempDir(), Logger: zerolog.Nop()}
	s := mustOpen(b, o)
	for i := range 16_000 {
		batch := s.Begin(uint64(i)+1, 1)
		for k := range 64 {
			batch.Put(benchKey(i*64+k), make([]byte, 100))
		}
		s.Commit(batch, func(error) {})
	}
	mustClose(b, s)
	b.ResetTimer()
	for range b.N {
		mustClose(b, mustOpen(b, o))
	}
}
