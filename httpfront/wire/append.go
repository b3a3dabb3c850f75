package wire

import (
	"bytes"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/google/uuid"
)

// AppendString appends a text as a JSON string. Invalid UTF-8 becomes U+FFFD, so that an answer is always JSON.
func AppendString[T string | []byte](dst []byte, text T) []byte {
	b := bytesOf(text)
	dst = append(dst, '"')
	if plainPrefix(b) == len(b) && utf8.Valid(b) {
		dst = append(dst, b...)
		return append(dst, '"')
	}
	return append(appendEscaped(dst, b), '"')
}

// bytesOf looks at a text as bytes without a copy. They are only read.
func bytesOf[T string | []byte](text T) []byte {
	switch text := any(text).(type) {
	case string:
		return unsafe.Slice(unsafe.StringData(text), len(text))
	case []byte:
		return text
	}
	panic("BUG: a text is a string or bytes")
}

// appendEscaped appends a text that may need escapes or repairs.
func appendEscaped(dst, b []byte) []byte {
	for len(b) > 0 {
		plain := b[:plainPrefix(b)]
		b = b[len(plain):]
		if utf8.Valid(plain) {
			dst = append(dst, plain...)
		} else {
			dst = append(dst, bytes.ToValidUTF8(plain, []byte("\ufffd"))...)
		}
		if len(b) > 0 {
			dst = appendEscape(dst, b[0])
			b = b[1:]
		}
	}
	return dst
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

func appendID(dst []byte, separator byte, name string, id uuid.UUID) []byte {
	dst = append(appendKey(dst, separator, name), '"')
	return append(AppendUUID(dst, id), '"')
}
