package httpfront

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// splitTarget cuts a request target into its raw path and its query. A target in absolute form loses scheme and
// authority; a # is a byte of the path like any other (messaging 2.2).
func splitTarget(target []byte) (path, query []byte) {
	if len(target) > 0 && target[0] != '/' {
		if _, rest, ok := bytes.Cut(target, []byte("://")); ok {
			start := bytes.IndexAny(rest, "/?")
			if start < 0 {
				return []byte("/"), nil
			}
			target = rest[start:]
		}
	}
	path, query, _ = bytes.Cut(target, []byte("?"))
	if len(path) == 0 {
		path = []byte("/")
	}
	return path, query
}

// splitPath splits a raw path at its slashes and decodes the segments afterwards, so that %2F is part of a name. ok is
// false when a segment is not UTF-8; it stands there as it is. The segments are copies.
func splitPath(path []byte) (segments []string, ok bool) {
	text := strings.TrimPrefix(string(path), "/")
	segments, ok = make([]string, 0, strings.Count(text, "/")+1), true
	for segment := range strings.SplitSeq(text, "/") {
		segment = decodePercent(segment)
		ok = ok && utf8.ValidString(segment)
		segments = append(segments, segment)
	}
	return segments, ok
}

// decodePercent decodes the valid percent escapes of a text; a % that starts none stands for itself, and so does a plus.
func decodePercent(text string) string {
	first := strings.IndexByte(text, '%')
	if first < 0 {
		return text
	}
	decoded := make([]byte, first, len(text))
	copy(decoded, text)
	for i := first; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			high, low := hexValue(text[i+1]), hexValue(text[i+2])
			if high >= 0 && low >= 0 {
				decoded = append(decoded, byte(high<<4|low))
				i += 2
				continue
			}
		}
		decoded = append(decoded, text[i])
	}
	return string(decoded)
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
