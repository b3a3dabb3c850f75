package wire

import (
	"strconv"
	"unicode/utf8"
)

// AppendString appends a text as a JSON string. Invalid UTF-8 becomes U+FFFD, so that an answer is always JSON.
func AppendString[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := decodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, text[start:i]...)
				dst = append(dst, "\ufffd"...)
				start = i + size
			}
			i += size
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, text[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

func decodeRune[T string | []byte](text T) (rune, int) {
	return utf8.DecodeRuneInString(string(text[:min(len(text), utf8.UTFMax)]))
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexText[c>>4], hexText[c&15])
}

// appendKey appends a member name that needs no escapes, with what stands in front of it: an opening brace or a comma.
func appendKey(dst []byte, separator byte, name string) []byte {
	dst = append(dst, separator, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendText[T string | []byte](dst []byte, separator byte, name string, text T) []byte {
	return AppendString(appendKey(dst, separator, name), text)
}

// appendTextOrNull writes null for an absent text.
func appendTextOrNull[T string | []byte](dst []byte, separator byte, name string, text T, present bool) []byte {
	dst = appendKey(dst, separator, name)
	if !present {
		return append(dst, "null"...)
	}
	return AppendString(dst, text)
}

func appendUint(dst []byte, separator byte, name string, n uint64) []byte {
	return strconv.AppendUint(appendKey(dst, separator, name), n, 10)
}

func appendInt(dst []byte, separator byte, name string, n int64) []byte {
	return strconv.AppendInt(appendKey(dst, separator, name), n, 10)
}

func appendBool(dst []byte, separator byte, name string, b bool) []byte {
	return strconv.AppendBool(appendKey(dst, separator, name), b)
}

func appendID(dst []byte, separator byte, name string, id [16]byte) []byte {
	dst = append(appendKey(dst, separator, name), '"')
	return append(AppendUUID(dst, id), '"')
}
