package store

// What fits into one batch. The layers above split commands before they propose, so that a batch never exceeds these.
const (
	// MaxBatchKeys is the number of distinct keys that one batch may put or delete. Badger allows 15 % of the memtable
	// divided by 96 bytes (52,428 for 32 MiB); the rest is left to the rows that the store adds itself.
	MaxBatchKeys = 32_768
	// MaxBatchBytes is the sum of key and value lengths of a batch. Badger allows 15 % of the memtable (5,033,164 bytes
	// for 32 MiB) and counts up to 16 bytes on top for each key.
	MaxBatchBytes = 4 << 20
	// MaxBatchBuckets is the number of buckets in which one batch may release chunks; the store adds a row of its own for
	// each. It is what Badger's limit leaves beside a full batch.
	MaxBatchBuckets = 4_096
	// MaxKeyBytes bounds a key; Badger stores its length in 16 bits.
	MaxKeyBytes = 32 << 10
	// MaxValueBytes bounds a value of main: anything of 1 MiB and more would go to main's value log, which is never
	// collected.
	MaxValueBytes = 1<<20 - 1024
	// MaxBlockBytes bounds the chunks of one entry together with their header. A bucket holds at most its nominal size
	// plus one such block, which must stay below the size at which Badger rotates a value log.
	MaxBlockBytes = 56 << 20
)

const (
	// mainMemTableBytes is the smallest power of two whose 15 % hold MaxBatchBytes and MaxBatchKeys with overhead.
	mainMemTableBytes = 32 << 20
	// bucketMemTableBytes holds about 40,000 block pointers; a bucket rarely has more blocks.
	bucketMemTableBytes = 4 << 20
	// bucketValueThreshold sends every block but the tiniest to the value log, where it is written once.
	bucketValueThreshold = 256
	// vlogHeadroomBytes is added to the size at which a bucket's value log would rotate, for record headers and for
	// blocks written twice by a replay.
	vlogHeadroomBytes = 8 << 20
	// keptUnsealed is the number of full buckets that stay open for writing-speed reads behind the open one, so that
	// consumers near the tail never wait for a seal.
	keptUnsealed = 2
	// maxSealedOpen bounds the sealed buckets open at one time; each costs some goroutines, descriptors and mappings.
	maxSealedOpen = 32
	// minReserveBytes is the free space below which the store refuses to write. Badger writes through memory maps, where
	// a full disk kills the process, so the store has to stop before: two memtable logs and their tables fit.
	minReserveBytes = 192 << 20
)
