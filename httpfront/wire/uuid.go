package wire

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// ParseUUID reads a UUID in its hyphenated form of 36 characters or its plain form of 32, in any letter case. ok is false
// for everything else.
func ParseUUID[T string | []byte](text T) (id uuid.UUID, ok bool) {
	hyphenated := len(text) == 36
	if !hyphenated && len(text) != 32 {
		return uuid.Nil, false
	}
	at := 0
	for i := range id {
		if hyphenated && (at == 8 || at == 13 || at == 18 || at == 23) {
			if text[at] != '-' {
				return uuid.Nil, false
			}
			at++
		}
		high, okHigh := hexDigit(text[at])
		low, okLow := hexDigit(text[at+1])
		if !okHigh || !okLow {
			return uuid.Nil, false
		}
		id[i] = high<<4 | low
		at += 2
	}
	return id, true
}

const hexText = "0123456789abcdef"

// AppendUUID appends the hyphenated, lower case form without quotes.
func AppendUUID(dst []byte, id uuid.UUID) []byte {
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	text[8] = '-'
	hex.Encode(text[9:13], id[4:6])
	text[13] = '-'
	hex.Encode(text[14:18], id[6:8])
	text[18] = '-'
	hex.Encode(text[19:23], id[8:10])
	text[23] = '-'
	hex.Encode(text[24:36], id[10:16])
	return append(dst, text[:]...)
}
