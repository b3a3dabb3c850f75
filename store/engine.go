package store

import (
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/rs/zerolog"
)

// engineFormat is the external magic of every database of ours: format 7 of the key layout, first format of rows.
const engineFormat = 7

// commonOptions are what main and buckets share. Nothing is left to Badger's defaults that matters to us.
func commonOptions(dir string, logger zerolog.Logger) badger.Options {
	o := badger.DefaultOptions(dir)
	o.ExternalMagicVersion = engineFormat
	o.Logger = engineLog{logger}
	o.MetricsEnabled = false
	// The Raft log is the write-ahead log; durability comes from durable points.
	o.SyncWrites = false
	// One writer and managed timestamps: there is nothing to conflict with.
	o.DetectConflicts = false
	o.NumVersionsToKeep = 1
	// Payloads may be encrypted or compressed by clients; CPU is scarcer than disk. Without compression blocks are read
	// from the mapping.
	o.Compression = options.None
	o.BlockSize = 4 << 10
	o.BloomFalsePositive = 0.01
	// A cache of blocks would keep what the page cache keeps, and takes each block for as large as the rest of its file.
	o.BlockCacheSize = 0
	o.IndexCacheSize = 0 // only encrypted tables need one; ours are mapped
	// A block that fails its checksum while being read looks to Badger like the end of the table: a get answers "not
	// found" and a compaction drops the rest. So it must not check while reading: Open verifies every table itself, and
	// each row carries our own checksum.
	o.ChecksumVerificationMode = options.NoVerification
	o.VerifyValueChecksum = false // each chunk carries our own checksum
	// Close would wait for a compaction.
	o.CompactL0OnClose = false
	return o
}

// mainOptions: everything in the LSM tree, sized for MaxBatchBytes.
func mainOptions(dir string, logger zerolog.Logger) badger.Options {
	o := commonOptions(dir, logger)
	o.MemTableSize = mainMemTableBytes
	o.NumMemtables = 2
	o.ValueThreshold = 1 << 20 // above MaxValueBytes, so nothing reaches the value log
	o.ValueLogFileSize = 1 << 20
	o.BaseTableSize = 8 << 20
	o.BaseLevelSize = 64 << 20
	o.NumLevelZeroTables = 4
	o.NumLevelZeroTablesStall = 16
	o.NumCompactors = 2
	return o
}

// bucketOptions: blocks go to one value log that never rotates; no compaction, for nothing is ever overwritten.
func bucketOptions(dir string, bucketBytes int64, logger zerolog.Logger) badger.Options {
	o := commonOptions(dir, logger)
	o.MemTableSize = bucketMemTableBytes
	o.NumMemtables = 2
	o.ValueThreshold = bucketValueThreshold
	o.ValueLogFileSize = bucketBytes + MaxBlockBytes + vlogHeadroomBytes
	o.ValueLogMaxEntries = 1 << 31
	o.NumCompactors = 0
	// Nothing ever takes tables away from level 0, so a stall would last for ever.
	o.NumLevelZeroTables = 1 << 20
	o.NumLevelZeroTablesStall = 1 << 21
	// The directory lock of main covers the whole store.
	o.BypassLockGuard = true
	return o
}

// engineLog passes Badger's log on, one level quieter: what Badger calls information is detail to an operator.
type engineLog struct{ log zerolog.Logger }

// maxEngineLineBytes bounds a line of Badger's in our log.
const maxEngineLineBytes = 300

// line is the first line of what Badger says, shortened. Some of its messages carry a histogram of many lines behind it,
// which nobody can read in a log of events.
func (l engineLog) line(format string, args []any) string {
	text, _, _ := strings.Cut(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n")
	if len(text) > maxEngineLineBytes {
		text = strings.ToValidUTF8(text[:maxEngineLineBytes], "") + "…"
	}
	return "badger: " + text
}

func (l engineLog) Errorf(format string, args ...any)   { l.log.Error().Msg(l.line(format, args)) }
func (l engineLog) Warningf(format string, args ...any) { l.log.Warn().Msg(l.line(format, args)) }

func (l engineLog) Infof(format string, args ...any) {
	if e := l.log.Debug(); e.Enabled() {
		e.Msg(l.line(format, args))
	}
}

func (l engineLog) Debugf(format string, args ...any) {
	if e := l.log.Trace(); e.Enabled() {
		e.Msg(l.line(format, args))
	}
}
