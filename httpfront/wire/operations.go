package wire

import (
	"errors"
	"math"
	"strconv"
)

var errNoOperations = errors.New("it is neither an array of operations nor an object that has one")

// operations reads the body of a call of the state surfaces: an array, or an object with the member operations (state 2.2, 3.2, 4.2).
// The texts of the operations alias the body. There is one more than most when there are too many.
func operations(body []byte, most int) (list [][]byte, err error) {
	s := newScanner(body)
	value := s.value()
	if s.end(); s.err != nil {
		return nil, s.err
	}
	if kindOf(value) == kindObject {
		var raw []byte
		inside := scanner{data: value}
		_ = inside.members(member{"operations", &raw}) // it is a valid object
		value = raw
	}
	if kindOf(value) != kindArray {
		return nil, errNoOperations
	}
	return elements(value, "operations", most)
}

// whole reads a JSON number that is an integer and not negative. One beyond 64 bits counts as the largest one: it is equal to no
// version, and longer than any time.
func whole(raw []byte) (n uint64, ok bool) {
	if len(raw) == 0 {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	// What is left is an error of range, which comes with the largest number.
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		n = math.MaxUint64
	}
	return n, true
}

// switched reads a member that is true or false; absent and null are false.
func switched(raw []byte) (on, ok bool) {
	if nothing(raw) {
		return false, true
	}
	return kindOf(raw) == kindBool && raw[0] == 't', kindOf(raw) == kindBool
}

// namesTenant tells whether a member is one of the spellings with which nobody may name a tenant (state 1.2).
func namesTenant(member []byte) bool {
	switch string(member) {
	case "tenant", "tenantId", "_tenant":
		return true
	}
	return false
}
