package partition

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	"github.com/zeebo/xxh3"

	"queen/raftlog/command"
)

// hashBytes is the size of a stored txid hash.
const hashBytes = 16

// Hash is the XXH3-128 of a transaction id, most significant byte first. Two ids with one hash count as one id.
type Hash = [hashBytes]byte

// HashTxid returns the hash under which a transaction id is stored. Any goroutine.
func HashTxid(txid []byte) Hash { return xxh3.Hash128(txid).Bytes() }

// appendMessageHash appends the hash of the transaction id under which clients know the message.
func appendMessageHash(dst []byte, m *command.Message) []byte {
	var text [36]byte
	sum := xxh3.Hash128(m.EffectiveTxid(text[:0]))
	dst = binary.BigEndian.AppendUint64(dst, sum.Hi)
	return binary.BigEndian.AppendUint64(dst, sum.Lo)
}

// fingerprintSeeds keep clients from choosing ids that crowd one place of a table. They decide where an entry lies, never
// what is found, so they may differ between nodes.
var fingerprintSeeds = [2]uint64{rand.Uint64(), rand.Uint64()}

// fingerprint condenses the 16 bytes of a hash to 32 bits.
func fingerprint(hash []byte) uint32 {
	_ = hash[hashBytes-1]
	high, low := bits.Mul64(binary.LittleEndian.Uint64(hash)^fingerprintSeeds[0],
		binary.LittleEndian.Uint64(hash[8:])^fingerprintSeeds[1])
	return uint32((high ^ low) >> 16)
}

// inWindow tells whether something stamped stampMicros is still remembered by a window.
func inWindow(stampMicros, nowMicros, windowMicros uint64) bool {
	return windowMicros > 0 && stampMicros+windowMicros > nowMicros
}

// cutoff returns the oldest stamp that is inside a window.
func cutoff(nowMicros, windowMicros uint64) uint64 {
	if windowMicros > nowMicros {
		return 0
	}
	return nowMicros - windowMicros + 1
}
