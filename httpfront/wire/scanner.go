package wire

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how many levels of arrays and objects a body may nest, its outermost one included (messaging 2.11).
const MaxDepth = 10_000

const tooDeep = "more than 10,000 levels of nesting"

// scanner walks over a JSON text that is known to be UTF-8. The first error sticks: afterwards every method returns zero
// values at once, so that callers look at err once, at the end.
//
// Objects and arrays are walked with
//
//	for ok := s.open('{'); ok && s.member(); { … read or skip one value … }
//
// where every round consumes exactly one value.
type scanner struct {
	data  []byte
	pos   int
	depth int
	err   error
	// opened is true right after an opening bracket: no comma is due before the next member or element.
	opened bool
	// name is the member name last read by member, decoded. It aliases data or scratch.
	name    []byte
	scratch []byte
}

// newScanner returns a scanner over a body, which fails at once when the body is not UTF-8.
func newScanner(body []byte) scanner {
	s := scanner{data: body}
	if !utf8.Valid(body) {
		s.err = errNotUTF8
	}
	return s
}

var errNotUTF8 = fmt.Errorf("the body is not UTF-8")

func (s *scanner) fail(what string) {
	if s.err == nil {
		s.err = fmt.Errorf("%s at byte %d", what, s.pos)
	}
}

// peek skips white space and returns the first byte of the next token, 0 at the end and after an error.
func (s *scanner) peek() byte {
	if s.err == nil && s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	return s.peekPastSpace()
}

func (s *scanner) peekPastSpace() byte {
	if s.err != nil {
		return 0
	}
	if s.pos = pastSpace(s.data, s.pos); s.pos >= len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// end fails unless only white space is left.
func (s *scanner) end() {
	s.peek()
	if s.pos < len(s.data) {
		s.fail("unexpected data after the JSON value")
	}
}

// open consumes the opening bracket when the next value has it. Otherwise nothing is consumed and the caller skips the
// value; a body that ends here is an error.
func (s *scanner) open(bracket byte) bool {
	if s.peek() != bracket {
		return false
	}
	if s.depth >= MaxDepth {
		s.fail(tooDeep)
		return false
	}
	s.depth++
	s.pos++
	s.opened = true
	return true
}

// separate handles what stands between the elements of a container, up to the next element. It returns false when the
// container has ended.
func (s *scanner) separate(closing byte) bool {
	if s.err != nil {
		return false
	}
	opened := s.opened
	s.opened = false
	switch s.peek() {
	case closing:
		s.pos++
		s.depth--
		return false
	case ',':
		if !opened {
			s.pos++
			return true
		}
	default:
		if opened && s.pos < len(s.data) {
			return true
		}
	}
	if s.pos >= len(s.data) {
		s.fail("unexpected end of JSON")
	} else {
		s.failSeparator(closing == '}')
	}
	return false
}

// member moves to the value of the next member of the object and sets name. It returns false at the end of the object.
func (s *scanner) member() bool {
	if !s.separate('}') {
		return false
	}
	if s.peek() != '"' {
		s.fail("expected a member name")
		return false
	}
	raw := s.text()
	if s.err != nil {
		return false
	}
	if s.peek() != ':' {
		s.fail("expected a colon")
		return false
	}
	s.pos++
	s.name = raw[1 : len(raw)-1]
	if hasEscape(s.name) {
		// An unpaired surrogate becomes U+FFFD here: no known name contains one, so the member is ignored.
		s.scratch, _ = appendUnescaped(s.scratch[:0], s.name)
		s.name = s.scratch
	}
	return true
}

// element moves to the next element of the array. It returns false at the end of the array.
func (s *scanner) element() bool { return s.separate(']') }

// value consumes one value of any kind and returns its text, without white space around it. The text aliases the body.
func (s *scanner) value() []byte {
	first := s.peek()
	start := s.pos
	switch first {
	case '{', '[':
		s.container()
	default:
		s.scalar(first)
	}
	if s.err != nil {
		return nil
	}
	return s.data[start:s.pos:s.pos]
}

// scalar consumes a string, number or literal that begins at pos.
func (s *scanner) scalar(first byte) {
	switch {
	case s.err != nil:
	case first == '"':
		s.text()
	case first == '-' || first >= '0' && first <= '9':
		s.number()
	case first == 't':
		s.literal("true")
	case first == 'f':
		s.literal("false")
	case first == 'n':
		s.literal("null")
	case s.pos >= len(s.data):
		s.fail("unexpected end of JSON")
	default:
		s.fail("unexpected character")
	}
}

func (s *scanner) literal(word string) {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		s.fail("unexpected character")
		return
	}
	s.pos += len(word)
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

func (s *scanner) number() {
	if s.at('-') {
		s.pos++
	}
	if s.at('0') {
		s.pos++
	} else if !s.digits() {
		s.fail("bad number")
		return
	}
	if s.at('.') {
		s.pos++
		if !s.digits() {
			s.fail("bad number")
			return
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if !s.digits() {
			s.fail("bad number")
		}
	}
}

// text consumes the string that begins at pos and returns it with its quotes.
func (s *scanner) text() []byte {
	start := s.pos
	end := textEnd(s.data, start)
	if end < 0 {
		s.badText()
		return nil
	}
	s.pos = end
	return s.data[start:end]
}

// textEnd returns the index behind the string that begins at i, or -1 when it is not a good one.
func textEnd(data []byte, i int) int {
	for i++; ; {
		i += plainPrefix(data[i:])
		if i >= len(data) {
			return -1
		}
		if data[i] == '"' {
			return i + 1
		}
		if data[i] != '\\' || i+1 >= len(data) {
			return -1
		}
		switch {
		case unescapes[data[i+1]] != 0:
			i += 2
		case data[i+1] == 'u':
			if _, ok := hex4(data[i+2:]); !ok {
				return -1
			}
			i += 6
		default:
			return -1
		}
	}
}

// badText fails with what is wrong with the string that begins at pos.
func (s *scanner) badText() {
	for s.pos++; s.err == nil; {
		s.pos += plainPrefix(s.data[s.pos:])
		switch {
		case s.pos >= len(s.data):
			s.fail("unexpected end of JSON in a string")
		case s.data[s.pos] == '\\':
			s.escape()
		default:
			s.fail("unescaped control character in a string")
		}
	}
}

// escape consumes the escape sequence that begins at pos.
func (s *scanner) escape() {
	s.pos++
	if s.pos >= len(s.data) {
		s.fail("unexpected end of JSON in a string")
		return
	}
	switch s.data[s.pos] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
	case 'u':
		if _, ok := hex4(s.data[s.pos+1:]); !ok {
			s.fail("bad \\u escape")
			return
		}
		s.pos += 5
	default:
		s.fail("bad escape")
	}
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// plainPrefix returns how many bytes at the start of b are neither a quote nor a backslash nor a control character. It
// looks at eight bytes at a time: a zero byte of x is where (x - lowBits) &^ x has its high bit set, and the lowest such
// bit is never a false one.
func plainPrefix(b []byte) int {
	n := 0
	for ; len(b) >= 8; b = b[8:] {
		word := binary.LittleEndian.Uint64(b)
		quote := word ^ lowBits*'"'
		slash := word ^ lowBits*'\\'
		special := (quote-lowBits)&^quote | (slash-lowBits)&^slash | (word-lowBits*0x20)&^word
		if special &= highBits; special != 0 {
			return n + bits.TrailingZeros64(special)/8
		}
		n += 8
	}
	for _, c := range b {
		if c < 0x20 || c == '"' || c == '\\' {
			break
		}
		n++
	}
	return n
}

// container consumes the object or array that begins at pos, without recursion: the kinds of the open brackets are bits
// of a stack, one for an object. It is the hot loop of the package: payloads are walked here, so it keeps its position in a
// register and leaves everything that is not a string or a bracket to scalar.
func (s *scanner) container() {
	data, i := s.data, s.pos
	var stack bitStack
	level, object := 0, false
	for {
		// A value is due.
		i = pastSpace(data, i)
		var c byte
		if i < len(data) {
			c = data[i]
		}
		s.pos = i
		switch c {
		case '{', '[':
			if s.depth+level >= MaxDepth {
				s.fail(tooDeep)
				return
			}
			level++
			object = c == '{'
			stack.push(level, object)
			i = pastSpace(data, i+1)
			if i < len(data) && data[i] == c+2 { // ASCII has } and ] two places after { and [
				break
			}
			if object {
				if i = s.memberName(i); i < 0 {
					return
				}
			}
			continue
		default:
			s.scalar(c)
			if s.err != nil {
				return
			}
			i = s.pos
		}
		// What was opened here ends, or a comma leads to the next value.
		for {
			i = pastSpace(data, i)
			if i >= len(data) {
				s.pos = i
				s.fail("unexpected end of JSON")
				return
			}
			if c = data[i]; c == ',' {
				break
			}
			if c != '}' && c != ']' || (c == '}') != object {
				s.pos = i
				s.failSeparator(object)
				return
			}
			i++
			if level--; level == 0 {
				s.pos = i
				return
			}
			object = stack.top(level)
		}
		if i++; object {
			if i = s.memberName(pastSpace(data, i)); i < 0 {
				return
			}
		}
	}
}

// memberName passes the member name at i and its colon, and returns -1 after an error.
func (s *scanner) memberName(i int) int {
	s.pos = i
	if i >= len(s.data) || s.data[i] != '"' {
		s.fail("expected a member name")
		return -1
	}
	if i = textEnd(s.data, i); i < 0 {
		s.badText()
		return -1
	}
	if i = pastSpace(s.data, i); i >= len(s.data) || s.data[i] != ':' {
		s.pos = i
		s.fail("expected a colon")
		return -1
	}
	return i + 1
}

func (s *scanner) failSeparator(object bool) {
	if object {
		s.fail("expected a comma or }")
	} else {
		s.fail("expected a comma or ]")
	}
}

// pastSpace returns the index of the first byte from i on that is no white space.
func pastSpace(data []byte, i int) int {
	for i < len(data) && data[i] <= ' ' && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// bitStack holds one bit per level; level 1 is the first. The first 64 levels need no allocation.
type bitStack struct {
	low  uint64
	rest []uint64
}

func (b *bitStack) push(level int, set bool) {
	index := level - 1
	word := &b.low
	if index >= 64 {
		for len(b.rest) < index/64 {
			b.rest = append(b.rest, 0)
		}
		word = &b.rest[index/64-1]
	}
	bit := uint64(1) << (index % 64)
	if set {
		*word |= bit
	} else {
		*word &^= bit
	}
}

func (b *bitStack) top(level int) bool {
	index := level - 1
	word := b.low
	if index >= 64 {
		word = b.rest[index/64-1]
	}
	return word>>(index%64)&1 != 0
}
