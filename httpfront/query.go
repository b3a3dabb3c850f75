package httpfront

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// args parses the query once, when it is first asked for.
func (r *Request) arg(name string) ([]byte, bool) {
	if !r.parsed {
		r.query.ParseBytes(r.raw)
		r.parsed = true
	}
	if !r.query.Has(name) {
		return nil, false
	}
	return r.query.Peek(name), true
}

// HasQuery tells whether the request has a query string.
func (r *Request) HasQuery() bool { return len(r.raw) > 0 }

// QueryText returns a text parameter. present is false when it is absent; a text that is not UTF-8 is refused.
func (r *Request) QueryText(name string) (text string, present bool, err error) {
	raw, present := r.arg(name)
	if !present {
		return "", false, nil
	}
	if !utf8.Valid(raw) {
		return "", true, Refuse(CodeBadRequest, name+" is not UTF-8")
	}
	return string(raw), true, nil
}

// QueryBool returns a boolean parameter: true, false, 1 or 0 (messaging 2.2).
func (r *Request) QueryBool(name string) (value, present bool, err error) {
	raw, present := r.arg(name)
	if !present {
		return false, false, nil
	}
	switch string(raw) {
	case "true", "1":
		return true, true, nil
	case "false", "0":
		return false, true, nil
	}
	return false, true, Refuse(CodeBadRequest, name+" must be true, false, 1 or 0")
}

// QueryInt returns a decimal integer parameter, or the fallback when it is absent. A number beyond 64 bits counts as the
// largest or the smallest one, because every caller clamps or refuses by range.
func (r *Request) QueryInt(name string, fallback int64) (int64, error) {
	raw, present := r.arg(name)
	if !present {
		return fallback, nil
	}
	number, ok := parseDecimal(raw)
	if !ok {
		return 0, Refuse(CodeBadRequest, name+" must be an integer")
	}
	return number, nil
}

// parseDecimal reads an optional sign and digits.
func parseDecimal(raw []byte) (number int64, ok bool) {
	digits := raw
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	// The only error left is one of range, and it comes with the nearest number.
	number, _ = strconv.ParseInt(string(raw), 10, 64)
	return number, true
}

// QueryClamped returns an integer parameter brought into a range, or the fallback when it is absent.
func (r *Request) QueryClamped(name string, fallback, least, most int64) (int64, error) {
	number, err := r.QueryInt(name, fallback)
	return min(max(number, least), most), err
}

// QueryPositive returns an integer parameter that must be at least 1 and fit 64 bits, such as the batch of a pop
// (messaging 5.2), or the fallback when it is absent.
func (r *Request) QueryPositive(name string, fallback int64) (int64, error) {
	raw, present := r.arg(name)
	if !present {
		return fallback, nil
	}
	number, ok := parseDecimal(raw)
	if !ok || number < 1 || number == math.MaxInt64 && string(raw) != "9223372036854775807" {
		return 0, Refuse(CodeBadRequest, name+" must be a positive integer")
	}
	return number, nil
}

// maxTimeoutMs caps the deadline that a client may ask for (cluster 8.2).
const maxTimeoutMs = 60_000

// QueryTimeoutMs returns the deadline of a write: timeoutMs, 1 to 60,000 ms and clamped above, or the fallback
// (cluster 8.2).
func (r *Request) QueryTimeoutMs(fallback int64) (int64, error) {
	number, err := r.QueryInt("timeoutMs", fallback)
	if err == nil && number < 1 {
		err = Refuse(CodeBadRequest, "timeoutMs must be from 1 to 60000")
	}
	return min(number, maxTimeoutMs), err
}
