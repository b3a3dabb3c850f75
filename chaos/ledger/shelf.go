package ledger

import "slices"

// shelf is a log with its records indexed.
type shelf struct {
	Log
	byToken map[string]int64 // offset of the first record with the token
	byTxid  map[string]int64
}

type shelves map[Partition]shelf

func indexLogs(logs map[Partition]Log) shelves {
	indexed := shelves{}
	for partition, log := range logs {
		one := shelf{Log: log, byToken: map[string]int64{}, byTxid: map[string]int64{}}
		for _, record := range slices.Backward(log.Records) {
			one.byToken[record.Token], one.byTxid[record.TransactionID] = record.Offset, record.Offset
		}
		indexed[partition] = one
	}
	return indexed
}

// at returns the record at an offset.
func (s shelf) at(offset int64) (Record, bool) {
	if offset >= 0 && offset < int64(len(s.Records)) && s.Records[offset].Offset == offset {
		return s.Records[offset], true
	}
	// Only a log that checkOffsets complains about gets here.
	i := slices.IndexFunc(s.Records, func(r Record) bool { return r.Offset == offset })
	if i < 0 {
		return Record{}, false
	}
	return s.Records[i], true
}

// find returns the offset at which the payload with the token stands.
func (s shelf) find(token string) (int64, bool) {
	offset, there := s.byToken[token]
	return offset, there
}

// has reports whether a message with the transactionId stands in the log.
func (s shelf) has(transactionID string) bool {
	_, there := s.byTxid[transactionID]
	return there
}
