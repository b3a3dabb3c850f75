package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// hasEscape reports whether the inside of a JSON string contains an escape sequence.
func hasEscape(inside []byte) bool { return bytes.IndexByte(inside, '\\') >= 0 }

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		digit, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// unescapes maps the letter of a short escape to its character.
var unescapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// appendUnescaped appends the characters of the inside of a JSON string, which the scanner has found valid. An unpaired
// surrogate becomes U+FFFD and makes exact false.
func appendUnescaped(dst, inside []byte) (text []byte, exact bool) {
	exact = true
	for i := 0; i < len(inside); {
		if inside[i] != '\\' {
			n := plainPrefix(inside[i:])
			dst = append(dst, inside[i:i+n]...)
			i += n
			continue
		}
		if inside[i+1] != 'u' {
			dst = append(dst, unescapes[inside[i+1]])
			i += 2
			continue
		}
		r, _ := hex4(inside[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			var paired bool
			if r, paired = pair(r, inside[i:]); paired {
				i += 6
			} else {
				exact = false
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, exact
}

// pair joins a surrogate with the escape that follows it.
func pair(first rune, rest []byte) (rune, bool) {
	if len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		if second, ok := hex4(rest[2:]); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				return r, true
			}
		}
	}
	return utf8.RuneError, false
}

// kind is the kind of a raw JSON value.
type kind uint8

const (
	kindAbsent kind = iota
	kindNull
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// kindOf names the kind of a value that the scanner has found valid; nil is an absent one.
func kindOf(raw []byte) kind {
	if len(raw) == 0 {
		return kindAbsent
	}
	switch raw[0] {
	case 'n':
		return kindNull
	case 't', 'f':
		return kindBool
	case '"':
		return kindString
	case '[':
		return kindArray
	case '{':
		return kindObject
	}
	return kindNumber
}

// nothing reports whether a member is absent or null.
func nothing(raw []byte) bool { k := kindOf(raw); return k == kindAbsent || k == kindNull }

// textBytes returns the characters of a raw JSON string, aliasing it when it has no escapes. ok is false for another kind
// of value and for an unpaired surrogate.
func textBytes(raw []byte) (text []byte, ok bool) {
	if kindOf(raw) != kindString {
		return nil, false
	}
	inside := raw[1 : len(raw)-1]
	if !hasEscape(inside) {
		return inside, true
	}
	return appendUnescaped(make([]byte, 0, len(inside)), inside)
}

// textString is textBytes with a copy.
func textString(raw []byte) (string, bool) {
	text, ok := textBytes(raw)
	return string(text), ok
}

// looseText is textString for texts that are only shown to people: an unpaired surrogate becomes U+FFFD.
func looseText(raw []byte) (string, bool) {
	text, _ := textBytes(raw)
	return string(text), kindOf(raw) == kindString
}
