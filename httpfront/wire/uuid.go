package wire

import "github.com/google/uuid"

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
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexText[b>>4], hexText[b&15])
	}
	return dst
}
