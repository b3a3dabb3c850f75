package bench

import "bytes"

// scanner walks over one JSON text without allocating. It accepts every valid text; of an invalid one it notices what gets in
// its way and sets bad. It neither unescapes strings nor checks numbers: whoever needs the text of a string that may be
// escaped must not use it.
type scanner struct {
	data []byte
	at   int
	bad  bool
}

// fail marks the text as bad and moves to its end, so that every loop over it ends.
func (s *scanner) fail() {
	s.bad = true
	s.at = len(s.data)
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take consumes the next byte when it is c.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// need consumes c or fails.
func (s *scanner) need(c byte) {
	if !s.take(c) {
		s.fail()
	}
}

// str consumes a string and returns what stands between its quotes, escapes as they are.
func (s *scanner) str() []byte {
	if !s.take('"') {
		s.fail()
		return nil
	}
	start := s.at
	for {
		end := bytes.IndexByte(s.data[s.at:], '"')
		if end < 0 {
			s.fail()
			return nil
		}
		s.at += end + 1
		// The quote is escaped when an odd number of backslashes stands before it.
		backslashes := 0
		for i := s.at - 2; i >= start && s.data[i] == '\\'; i-- {
			backslashes++
		}
		if backslashes%2 == 0 {
			return s.data[start : s.at-1]
		}
	}
}

// key consumes the next member name of an object and its colon; more is false after the last member. first is true before
// the first one.
func (s *scanner) key(first bool) (name []byte, more bool) {
	if s.take('}') {
		return nil, false
	}
	if !first {
		s.need(',')
	}
	name = s.str()
	s.need(':')
	return name, !s.bad
}

// element moves to the next element of an array; false after the last one.
func (s *scanner) element(first bool) bool {
	if s.take(']') {
		return false
	}
	if !first {
		s.need(',')
	}
	return !s.bad
}

// value consumes any value and returns its text.
func (s *scanner) value() []byte {
	first := s.peek()
	start := s.at
	switch first {
	case '"':
		s.str()
	case '{', '[':
		s.composite()
	case 0:
		s.fail()
	default:
		for s.at < len(s.data) && !endsScalar(s.data[s.at]) {
			s.at++
		}
		if s.at == start {
			s.fail()
		}
	}
	if s.bad {
		return nil
	}
	return s.data[start:s.at]
}

// endsScalar tells whether c stands after a number, true, false or null.
func endsScalar(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\r' || c == '\n'
}

// composite consumes an object or array by counting brackets outside strings.
func (s *scanner) composite() {
	depth := 0
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case '"':
			s.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return
		}
	}
	s.fail()
}
