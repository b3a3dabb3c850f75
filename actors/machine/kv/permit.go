package kv

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"queen/raftlog/command"
)

const (
	// LockNamespace is where the permits of locks lie (state 4.1).
	LockNamespace = "queen-locks"
	// MaxSlots is how many permits a semaphore has at most (state 4.2).
	MaxSlots = 1024
	// permitBytes is how long a value is searched for an owner: six times as long as an owner may be, and some more. A row that
	// somebody else has put in the place of a permit holds it, with whatever value.
	permitBytes = 4 << 10
)

// PermitKey is the key of the row of a permit.
func PermitKey(name string, slot uint32) string {
	return name + "#" + strconv.FormatUint(uint64(slot), 10)
}

// Guard is the operation that holds in a transaction as long as a permit has that token (state 4.3).
func Guard(name string, slot uint32, token uint64) command.KVOp {
	return command.KVOp{
		Kind: command.KVCheck, Namespace: LockNamespace, Key: PermitKey(name, slot), Expect: token, HasExpect: true, Required: true,
	}
}

// slotOf reads the slot at the end of the key of a permit, whose name and '#' are cut off.
func slotOf(suffix string) (slot uint32, ok bool) {
	n, err := strconv.ParseUint(suffix, 10, 32)
	if err != nil || n >= MaxSlots || strconv.FormatUint(n, 10) != suffix {
		return 0, false
	}
	return uint32(n), true
}

// permitTime is the form of the times in a permit (state 1.5).
const permitTime = "2006-01-02T15:04:05.000000Z"

// permit is the value of the row of a permit, an owner being empty for none.
func permit(owner string, sinceMicros uint64) []byte {
	value := []byte(`{"owner":`)
	if owner == "" {
		value = append(value, "null"...)
	} else {
		value = appendQuoted(value, owner)
	}
	value = append(value, `,"since":"`...)
	value = time.UnixMicro(int64(sinceMicros)).UTC().AppendFormat(value, permitTime)
	return append(value, `"}`...)
}

// appendQuoted appends a JSON string.
func appendQuoted(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// holder reads what a live row says of a permit. A row that is no permit, since anybody may write there, has no owner and is
// held since it was written.
func holder(slot uint32, row *Row) command.LockHolder {
	h := command.LockHolder{
		Slot: slot, Token: row.Version, SinceMicros: row.UpdatedMicros, UpdatedMicros: row.UpdatedMicros, ExpiresMicros: row.ExpiresMicros,
	}
	if len(row.Inline) > permitBytes {
		return h
	}
	members(row.Inline, func(name string, value []byte) {
		switch name {
		case "owner":
			h.Owner, _ = unquoted(value)
		case "since":
			text, _ := unquoted(value)
			if at, err := time.Parse(permitTime, text); err == nil && at.UnixMicro() >= 0 {
				h.SinceMicros = uint64(at.UnixMicro())
			}
		}
	})
	return h
}

// members visits the members of an object in compact JSON, the values as they stand there. Of anything else it visits none,
// or those in front of what is wrong.
func members(object []byte, visit func(name string, value []byte)) {
	rest, ok := bytes.CutPrefix(object, []byte("{"))
	for ok {
		n := valueEnd(rest)
		if n == 0 || n >= len(rest) || rest[0] != '"' || rest[n] != ':' {
			return
		}
		name, _ := unquoted(rest[:n])
		rest = rest[n+1:]
		n = valueEnd(rest)
		if n == 0 {
			return
		}
		visit(name, rest[:n])
		rest, ok = bytes.CutPrefix(rest[n:], []byte(","))
	}
}

// valueEnd is how long the value at the front is: up to the comma, colon or bracket behind it.
func valueEnd(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth == 0 && strings.IndexByte(",:}]", c) >= 0:
			return i
		case c == '}' || c == ']':
			depth--
		}
	}
	return len(text)
}

// unquoted reads a JSON string; ok is false for any other value, and for a string that is no text since half of a surrogate pair
// stands alone in it: two of those must not become one (messaging 2.1).
func unquoted(value []byte) (text string, ok bool) {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return "", false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	plain, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", false
	}
	return string(plain), true
}
