package store

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
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
