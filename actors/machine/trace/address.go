package trace

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queen/store/layout"
)

// Address is the hash of a tenant, a partition and a txid under which traces are found. Readers compare what they find with
// what they look for, so that a collision shows nobody the traces of somebody else.
type Address [16]byte

// AddressOf hashes an address; partition is its canonical text.
func AddressOf(tenant uuid.UUID, partition, txid string) Address {
	material := make([]byte, 0, len(tenant)+binary.MaxVarintLen64+len(partition)+len(txid))
	material = append(material, tenant[:]...)
	material = appendText(material, partition)
	return xxh3.Hash128(append(material, txid...)).Bytes()
}

// Resolve reads the text with which a client names a partition: a decimal id, or the UUID of a partition that exists. known
// is false for any other text. canonical is the same for every text that names the partition.
func Resolve(r Reader, text string) (id uint64, known bool, canonical string, err error) {
	if id, err := strconv.ParseUint(text, 10, 64); err == nil {
		return id, true, strconv.FormatUint(id, 10), nil
	}
	wanted, err := uuid.Parse(text)
	if err != nil || len(text) != len(wanted.String()) {
		return 0, false, text, nil
	}
	row, err := r.Get(layout.PartitionUUID(wanted))
	if err != nil {
		return 0, false, "", fmt.Errorf("find partition of a trace: %w", err)
	}
	if row == nil {
		return 0, false, wanted.String(), nil
	}
	if id, err = number64(row); err != nil {
		return 0, false, "", err
	}
	return id, true, strconv.FormatUint(id, 10), nil
}
