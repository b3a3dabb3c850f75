package bench

import (
	"bytes"
	"strconv"
)

// identityBase is the radix of the numbers inside transaction ids: the shortest that strconv offers.
const identityBase = 36

// identity names one message of a run. It travels as the transaction id <run>-<lane>-<sequence>-<microseconds>.
type identity struct {
	lane     uint32
	sequence uint32
	// scheduledUs is when the push was due, in microseconds since the start of the run.
	scheduledUs int64
}

// appendTransactionID appends the transaction id of a message.
func appendTransactionID(dst []byte, run string, id identity) []byte {
	dst = appendTransactionPrefix(dst, run, id)
	dst = strconv.AppendUint(dst, uint64(id.sequence), identityBase)
	return appendTransactionSuffix(dst, id)
}

// appendTransactionPrefix appends what stands before the number of the message.
func appendTransactionPrefix(dst []byte, run string, id identity) []byte {
	dst = append(dst, run...)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, uint64(id.lane), identityBase)
	return append(dst, '-')
}

// appendTransactionSuffix appends what stands behind the number of the message.
func appendTransactionSuffix(dst []byte, id identity) []byte {
	dst = append(dst, '-')
	return strconv.AppendInt(dst, id.scheduledUs, identityBase)
}

// parseTransactionID reads what appendTransactionID wrote. Messages of other runs and other programs are not recognised.
func parseTransactionID(text []byte, run string) (identity, bool) {
	if len(text) <= len(run) || string(text[:len(run)]) != run || text[len(run)] != '-' || text[len(text)-1] == '-' {
		return identity{}, false
	}
	rest := text[len(run)+1:]
	lane, rest, laneFound := parseBase36(rest)
	sequence, rest, sequenceFound := parseBase36(rest)
	scheduled, rest, scheduledFound := parseBase36(rest)
	if !laneFound || !sequenceFound || !scheduledFound || len(rest) != 0 || lane > maxUint32 || sequence > maxUint32 {
		return identity{}, false
	}
	return identity{lane: uint32(lane), sequence: uint32(sequence), scheduledUs: int64(scheduled)}, true
}

const maxUint32 = 1<<32 - 1

// maxBase36Digits keeps parseBase36 below 2^63.
const maxBase36Digits = 12

// parseBase36 reads digits up to the next '-', which it swallows, or the end.
func parseBase36(text []byte) (value uint64, rest []byte, found bool) {
	i := 0
	for ; i < len(text) && i < maxBase36Digits; i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			value = value*identityBase + uint64(c-'0')
		case c >= 'a' && c <= 'z':
			value = value*identityBase + uint64(c-'a') + 10
		case c == '-' && i > 0:
			return value, text[i+1:], true
		default:
			return 0, nil, false
		}
	}
	return value, text[i:], i > 0 && i == len(text)
}

// A payload is {"d":"<lane>.<sequence>.<pad>"}: one member, so that it costs a broker no more than other payloads, and the
// identity at a place where no white space can get in between.
const (
	payloadHead = `{"d":"`
	payloadTail = `"}`
)

// appendPayloadMarker appends the text that must stand in the payload of a message.
func appendPayloadMarker(dst []byte, id identity) []byte {
	dst = append(dst, '"')
	dst = strconv.AppendUint(dst, uint64(id.lane), identityBase)
	dst = append(dst, '.')
	dst = strconv.AppendUint(dst, uint64(id.sequence), identityBase)
	return append(dst, '.')
}

// makePad makes the filler of payloads: letters that do not compress to nothing and need no escapes.
func makePad(sizeBytes int) []byte {
	pad := make([]byte, sizeBytes)
	state := uint32(2463534242) // xorshift; any odd start
	for i := range pad {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		pad[i] = 'a' + byte(state%26)
	}
	return pad
}

// carriesMarker tells whether a delivered payload is still the one that was pushed under id, as far as its identity and
// length show.
func carriesMarker(payload []byte, id identity, sizeBytes int) bool {
	var buffer [24]byte
	return len(payload) >= sizeBytes && bytes.Contains(payload, appendPayloadMarker(buffer[:0], id))
}
