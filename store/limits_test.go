package store

import "testing"

// TestLimitsLeaveRoomForTheStoresOwnRows does Badger's sums for the largest batch that the limits allow; the real thing
// without the store's rows is in TestLimitsFitIntoOneTransaction.
func TestLimitsLeaveRoomForTheStoresOwnRows(t *testing.T) {
	const (
		skiplistNodeBytes = 96 // Badger's cost of a key in a memtable
		overheadBytes     = 12 // Badger's cost of a key in a transaction, version included
		allowedBytes      = mainMemTableBytes * 15 / 100
		allowedKeys       = allowedBytes / skiplistNodeBytes
		keys              = MaxBatchKeys + MaxBatchBuckets + 2 // applied row, end of transaction
		ownBytes          = MaxBatchBuckets*(9+bucketRowBytes) + len("mapplied") + appliedBytes + 64
		bytes             = MaxBatchBytes + ownBytes + keys*(overheadBytes+rowSumBytes)
	)
	if keys >= allowedKeys || bytes >= allowedBytes {
		t.Fatalf("a full batch has %d keys of %d allowed and %d bytes of %d allowed", keys, allowedKeys, bytes, allowedBytes)
	}
	if mainOptions("", quiet("").Logger).ValueThreshold <= MaxValueBytes+rowSumBytes {
		t.Fatal("the largest value would go to main's value log")
	}
	for _, bucketBytes := range []int64{defaults().BucketBytes, maxBucketBytes} {
		o := bucketOptions("", bucketBytes, quiet("").Logger)
		if o.ValueLogFileSize < bucketBytes+MaxBlockBytes || o.ValueLogFileSize*2 >= 2<<30 {
			t.Fatalf("value log of %d bytes for buckets of %d", o.ValueLogFileSize, bucketBytes)
		}
	}
}
