package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkExportAndImport moves STORE_EXPORT_MIB (64): a quarter rows of 200 bytes, the rest chunks of 16 KiB. The source
// is at rest; hold shows for how long a commit is held up by the beginning of an export.
func BenchmarkExportAndImport(b *testing.B) {
	mib := 64
	if text := os.Getenv("STORE_EXPORT_MIB"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		mib = n
	}
	root := b.TempDir()
	s := mustOpen(b, Options{Dir: filepath.Join(root, "source"), Logger: zerolog.Nop()})
	fillForExport(b, s, mib)
	durable(b, s)
	gib := float64(mib) / 1024
	for i := 0; b.Loop(); i++ {
		staging := filepath.Join(root, "staging")
		if err := os.MkdirAll(staging, 0o755); err != nil {
			b.Fatal(err)
		}
		cpu, began := cpuTime(b), time.Now()
		e := mustExport(b, s)
		b.ReportMetric(time.Since(began).Seconds()*1e3, "begin-ms")
		if err := receive(e, staging); err != nil {
			b.Fatal(err)
		}
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "export-s")
		b.ReportMetric((cpuTime(b)-cpu).Seconds()/gib, "export-cpu-s/GiB")
		o := Options{Dir: filepath.Join(root, "target"), Logger: zerolog.Nop()}
		cpu, began = cpuTime(b), time.Now()
		if _, err := Import(b.Context(), staging, nil, o); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "import-s")
		b.ReportMetric((cpuTime(b)-cpu).Seconds()/gib, "import-cpu-s/GiB")
		began = time.Now()
		if err := Activate(staging, o); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds()*1e3, "activate-ms")
		began = time.Now()
		mustClose(b, mustOpen(b, o))
		b.ReportMetric(time.Since(began).Seconds(), "open-close-s")
		if err := CleanStaging(staging); err != nil {
			b.Fatal(err)
		}
	}
	mustClose(b, s)
}

func fillForExport(b *testing.B, s *Store, mib int) {
	b.Helper()
	const rowBytes, chunkBytes, chunks = 200, 16 << 10, 48
	rows := chunks * chunkBytes / 3 / rowBytes
	random := rand.NewChaCha8([32]byte{1})
	chunk := make([]byte, chunkBytes)
	entries := mib << 20 * 3 / 4 / (chunks * chunkBytes)
	for i := 1; i <= entries; i++ {
		batch := s.Begin(uint64(i), 1)
		for range chunks {
			_, _ = random.Read(chunk) // never fails
			batch.SetChunk(batch.ReserveChunk(), append([]byte(nil), chunk...))
		}
		for row := range rows {
			value := make([]byte, rowBytes-20)
			_, _ = random.Read(value)
			batch.Put(binary.BigEndian.AppendUint64([]byte("prow"), uint64(row*entries+i)), value)
		}
		s.Commit(batch, func(err error) {
			if err != nil {
				panic(err)
			}
		})
	}
	commit(b, s, s.Begin(uint64(entries)+1, 1))
}

// BenchmarkCommitDuringExport is the latency of commits: alone, beside an export that is sent at a pace, and beside one that
// is read as fast as it can be.
func BenchmarkCommitDuringExport(b *testing.B) {
	for name, bytesPerSecond := range map[string]rate.Limit{"alone": 0, "export=32MiB": 32 << 20, "export=unpaced": rate.Inf} {
		b.Run(name, func(b *testing.B) {
			s := mustOpen(b, Options{Dir: filepath.Join(b.TempDir(), "source"), Logger: zerolog.Nop()})
			defer mustClose(b, s)
			fillForExport(b, s, 256)
			ctx, cancel := context.WithCancel(b.Context())
			var reading sync.WaitGroup
			reading.Go(func() {
				limiter := rate.NewLimiter(bytesPerSecond, 1<<20)
				for bytesPerSecond > 0 && ctx.Err() == nil {
					e := mustExport(b, s)
					err := discard(ctx, e, limiter)
					if err := errors.Join(err, e.Close()); err != nil && ctx.Err() == nil {
						b.Error(err)
						return
					}
				}
			})
			payload := bytes.Repeat([]byte{7}, 300)
			var took []time.Duration
			index, _ := s.Applied()
			for b.Loop() {
				index++
				batch := s.Begin(index, 1)
				for k := range 64 {
					ref := batch.SetChunk(batch.ReserveChunk(), payload)
					batch.Put(benchKey(int(index)*64+k), ref.Append(nil))
				}
				began := time.Now()
				commit(b, s, batch)
				took = append(took, time.Since(began))
			}
			cancel()
			reading.Wait()
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
		})
	}
}

// discard reads all of an export.
func discard(ctx context.Context, e *Export, limiter *rate.Limiter) error {
	piece := make([]byte, 1<<20)
	for {
		_, size, err := e.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for at := int64(0); at < size; {
			n, err := e.ReadAt(piece, at)
			if n == 0 {
				return err
			}
			if err := limiter.WaitN(ctx, n); err != nil {
				return err
			}
			at += int64(n)
		}
	}
}
