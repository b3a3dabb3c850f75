package kv

import (
	"bytes"
	"slices"
)

// decimal is an exact number: digits times ten to the power of exponent. Digits are those of text, first and last of them not
// '0'; zero has none. All that is done with them takes time in proportion to their number, which math/big does not promise
// for numbers as text, and none of it writes out an exponent: 1e999999999 costs what its eleven bytes cost.
type decimal struct {
	negative bool
	digits   []byte
	exponent int64
}

// exponentMost is where exponents end: beyond it a number is as good as endless, and sums of a few of them still fit 64 bits.
const exponentMost = 1 << 40

// parseDecimal reads a JSON number; ok is false for everything else. The digits alias text where they can.
func parseDecimal[T string | []byte](number T) (d decimal, ok bool) {
	text := []byte(number)
	at := 0
	if at < len(text) && text[at] == '-' {
		d.negative = true
		at++
	}
	whole := digitsAt(text, at)
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return decimal{}, false
	}
	at += len(whole)
	d.digits = whole
	if at < len(text) && text[at] == '.' {
		fraction := digitsAt(text, at+1)
		if len(fraction) == 0 {
			return decimal{}, false
		}
		at += 1 + len(fraction)
		d.digits = slices.Concat(whole, fraction)
		d.exponent = -int64(len(fraction))
	}
	if at < len(text) && (text[at] == 'e' || text[at] == 'E') {
		exponent, n := exponentAt(text[at+1:])
		if n == 0 {
			return decimal{}, false
		}
		at += 1 + n
		d.exponent += exponent
	}
	return d.trimmed(), at == len(text)
}

// digitsAt is the run of digits at a place.
func digitsAt(text []byte, at int) []byte {
	end := at
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	return text[at:end]
}

// exponentAt reads an exponent, cut off at exponentMost, and how many bytes it takes; 0 when there is none.
func exponentAt(text []byte) (exponent int64, n int) {
	negative := false
	if n < len(text) && (text[n] == '-' || text[n] == '+') {
		negative = text[n] == '-'
		n++
	}
	digits := digitsAt(text, n)
	if len(digits) == 0 {
		return 0, 0
	}
	for _, digit := range digits {
		exponent = min(exponent*10+int64(digit-'0'), exponentMost)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, n + len(digits)
}

// trimmed drops zeros at both ends. Zero has no sign and no exponent.
func (d decimal) trimmed() decimal {
	digits := bytes.TrimLeft(d.digits, "0")
	if len(digits) == 0 {
		return decimal{}
	}
	short := bytes.TrimRight(digits, "0")
	return decimal{negative: d.negative, digits: short, exponent: d.exponent + int64(len(digits)-len(short))}
}

// top is the power of ten above the first digit.
func (d *decimal) top() int64 { return d.exponent + int64(len(d.digits)) }

// plainBytes is how long the number is without an exponent.
func (d *decimal) plainBytes() int64 {
	if len(d.digits) == 0 {
		return 1
	}
	n := max(d.top(), 1)
	if d.exponent < 0 {
		n += 1 - d.exponent
	}
	if d.negative {
		n++
	}
	return n
}

// appendPlain appends the number without an exponent. The caller has looked at plainBytes.
func (d *decimal) appendPlain(dst []byte) []byte {
	if len(d.digits) == 0 {
		return append(dst, '0')
	}
	if d.negative {
		dst = append(dst, '-')
	}
	zeros := func(n int64) {
		for range n {
			dst = append(dst, '0')
		}
	}
	top := d.top()
	switch {
	case top <= 0:
		dst = append(dst, '0', '.')
		zeros(-top)
		dst = append(dst, d.digits...)
	case d.exponent >= 0:
		dst = append(dst, d.digits...)
		zeros(d.exponent)
	default:
		dst = append(dst, d.digits[:top]...)
		dst = append(append(dst, '.'), d.digits[top:]...)
	}
	return dst
}

// compare orders two numbers.
func (d *decimal) compare(other *decimal) int {
	switch sign, otherSign := d.sign(), other.sign(); {
	case sign < otherSign:
		return -1
	case sign > otherSign:
		return 1
	case sign < 0:
		return -d.compareMagnitude(other)
	default:
		return d.compareMagnitude(other)
	}
}

func (d *decimal) sign() int {
	switch {
	case len(d.digits) == 0:
		return 0
	case d.negative:
		return -1
	default:
		return 1
	}
}

func (d *decimal) compareMagnitude(other *decimal) int {
	switch {
	case len(d.digits) == 0 || len(other.digits) == 0:
		return len(d.digits) - len(other.digits)
	case d.top() < other.top():
		return -1
	case d.top() > other.top():
		return 1
	default:
		return bytes.Compare(d.digits, other.digits) // both begin at the same power and end without zeros
	}
}

// add returns the sum of a number whose plain form has at most most bytes and any other one. ok is false when the plain form
// of the sum is longer than that.
func (d *decimal) add(other *decimal, most int64) (sum decimal, ok bool) {
	// A digit of other that lies outside of what d can reach stays in the sum: above by a place and more, or below.
	if len(other.digits) > 0 && (other.top() > most+2 || other.exponent < -most) {
		return decimal{}, false
	}
	switch {
	case len(other.digits) == 0:
		sum = *d
	case len(d.digits) == 0:
		sum = *other
	case d.negative == other.negative:
		sum = addMagnitudes(d, other)
		sum.negative = d.negative
	case d.compareMagnitude(other) >= 0:
		sum = subtractMagnitudes(d, other)
		sum.negative = d.negative
	default:
		sum = subtractMagnitudes(other, d)
		sum.negative = other.negative
	}
	sum = sum.trimmed()
	return sum, sum.plainBytes() <= most
}

// aligned spreads the digits of a over the powers of ten from low to high, as numbers from 0 to 9, the lowest first.
func (d *decimal) aligned(low, high int64) []byte {
	spread := make([]byte, high-low)
	at := d.exponent - low
	for i := len(d.digits) - 1; i >= 0; i-- {
		spread[at] = d.digits[i] - '0'
		at++
	}
	return spread
}

func addMagnitudes(a, b *decimal) decimal {
	low, high := min(a.exponent, b.exponent), max(a.top(), b.top())+1
	sum := a.aligned(low, high)
	carry := byte(0)
	for i, digit := range b.aligned(low, high) {
		sum[i] += digit + carry
		carry = 0
		if sum[i] > 9 {
			sum[i] -= 10
			carry = 1
		}
	}
	return written(sum, low)
}

// subtractMagnitudes takes b from a, which is not the smaller one.
func subtractMagnitudes(a, b *decimal) decimal {
	low, high := min(a.exponent, b.exponent), max(a.top(), b.top())
	left := a.aligned(low, high)
	borrow := byte(0)
	for i, digit := range b.aligned(low, high) {
		digit += borrow
		borrow = 0
		if left[i] < digit {
			left[i] += 10
			borrow = 1
		}
		left[i] -= digit
	}
	return written(left, low)
}

// written turns aligned digits into a number.
func written(spread []byte, low int64) decimal {
	slices.Reverse(spread)
	for i := range spread {
		spread[i] += '0'
	}
	return decimal{digits: spread, exponent: low}
}
