package kv

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, text string) decimal {
	t.Helper()
	d, ok := parseDecimal(text)
	if !ok {
		t.Fatalf("%q is not read", text)
	}
	return d
}

func plain(d decimal) string { return string(d.appendPlain(nil)) }

func TestNumbersAreReadAsJSONHasThem(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "0e5": "0", "-0.00e-7": "0", "7": "7", "-7": "-7", "100": "100", "1e3": "1000", "1E+3": "1000",
		"1000e-3": "1", "1.50": "1.5", "0.001": "0.001", "12.34e1": "123.4", "12.34e2": "1234", "12.34e4": "123400", "1e-3": "0.001",
		"-1.5e-2": "-0.015", "9007199254740993": "9007199254740993", "0e999999999999999999999999": "0",
		"123456789012345678901234567890.5": "123456789012345678901234567890.5",
	} {
		d := mustParse(t, text)
		if got := plain(d); got != want || d.plainBytes() != int64(len(want)) {
			t.Errorf("%s is %s with %d bytes, want %s", text, got, d.plainBytes(), want)
		}
	}
	for _, text := range []string{"", "-", "+1", "01", "-01", ".5", "5.", "1e", "1e+", "1.e5", "1 ", " 1", "1x", "0x1", "NaN", "1e5.5", "--1", "1.2.3",
		`"1"`, "null", "1e5e5", "00", "1_0"} {
		if _, ok := parseDecimal(text); ok {
			t.Errorf("%q is read as a number", text)
		}
	}
}

func TestSumsAreExact(t *testing.T) {
	for _, c := range [][3]string{
		{"1", "1", "2"}, {"9", "1", "10"}, {"0.1", "0.2", "0.3"}, {"1.5", "0.5", "2"}, {"5", "-5", "0"}, {"0", "-5", "-5"}, {"5", "-7", "-2"},
		{"-5", "7", "2"}, {"-5", "-7", "-12"}, {"9223372036854775807", "1", "9223372036854775808"}, {"1e30", "1e-5", "1" + strings.Repeat("0", 30) + ".00001"},
		{"9007199254740993", "0", "9007199254740993"}, {"1000", "-0.001", "999.999"}, {"1e3", "1", "1001"},
	} {
		a, b := mustParse(t, c[0]), mustParse(t, c[1])
		sum, ok := a.add(&b, 1000)
		if got := plain(sum); !ok || got != c[2] {
			t.Errorf("%s + %s = %s, %v, want %s", c[0], c[1], got, ok, c[2])
		}
	}
}

func TestSumsThatAreTooLongAreRefused(t *testing.T) {
	for _, c := range []struct {
		a, b string
		most int64
		ok   bool
	}{
		{"99999", "1", 5, false}, {"99999", "1", 6, true}, {"-99999", "-1", 6, false}, {"0", "1e999999999", 65_536, false}, {"0", "1e-999999999", 65_536, false},
		{"1e4", "-1e4", 5, true}, {"1", "0.01", 4, true}, {"1", "0.001", 4, false}, {"0", "-1e999999999999999999999", 65_536, false},
		{"10000", "-100000", 5, false}, {"99999", "-100000", 5, true},
	} {
		a, b := mustParse(t, c.a), mustParse(t, c.b)
		if sum, ok := a.add(&b, c.most); ok != c.ok {
			t.Errorf("%s + %s within %d bytes: %v", c.a, c.b, c.most, ok)
		} else if ok && int64(len(plain(sum))) > c.most {
			t.Errorf("%s + %s = %s", c.a, c.b, plain(sum))
		}
	}
}

// TestHostileNumbersAreCheap: a number of any form costs what its bytes cost (state 2.3).
func TestHostileNumbersAreCheap(t *testing.T) {
	long := strings.Repeat("9", 1<<20)
	numbers := []string{"1e999999999", "-1e999999999", "1e-999999999", "1e" + long, "1e-" + long, long, "0." + long, long + "." + long, long + "e-" + long}
	begin := time.Now()
	for _, a := range numbers {
		for _, b := range numbers {
			x, y := mustParse(t, a), mustParse(t, b)
			x.compare(&y)
			if x.plainBytes() <= 4<<20 {
				x.add(&y, 4<<20)
			}
		}
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("81 pairs take %v", took)
	}
}

func drawNumber(t *rapid.T, name string) string {
	digits := rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?`).Draw(t, name)
	if rapid.Bool().Draw(t, "with exponent") {
		digits += rapid.StringMatching(`[eE][+-]?[0-9]{1,2}`).Draw(t, "exponent")
	}
	return digits
}

// TestNumbersAgreeWithFractions compares with the fractions of math/big.
func TestNumbersAgreeWithFractions(t *testing.T) {
	fraction := func(text string) *big.Rat {
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			panic(text)
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawNumber(t, "a"), drawNumber(t, "b")
		x, okX := parseDecimal(a)
		y, okY := parseDecimal(b)
		if !okX || !okY {
			t.Fatalf("%s or %s is not read", a, b)
		}
		if got := plain(x); int64(len(got)) != x.plainBytes() || fraction(got).Cmp(fraction(a)) != 0 {
			t.Fatalf("%s is %s with %d bytes", a, got, x.plainBytes())
		}
		if got, want := x.compare(&y), fraction(a).Cmp(fraction(b)); got != want && (got < 0) != (want < 0) || (got == 0) != (want == 0) {
			t.Fatalf("%s against %s: %d, want %d", a, b, got, want)
		}
		most := max(x.plainBytes(), rapid.Int64Range(1, 300).Draw(t, "most"))
		sum, ok := x.add(&y, most)
		want := new(big.Rat).Add(fraction(a), fraction(b))
		exact, _ := want.FloatPrec()
		if text := want.FloatString(exact); ok != (int64(len(text)) <= most) || ok && plain(sum) != text {
			t.Fatalf("%s + %s = %s, %v within %d, want %s", a, b, plain(sum), ok, most, text)
		}
	})
}

func FuzzParseDecimal(f *testing.F) {
	for _, text := range []string{"0", "-1.5e3", "1e999999999", "1e-999999999", "01", "1.", "12345678901234567890.5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := parseDecimal(text)
		first := strings.IndexAny(text, "-0123456789") == 0
		if isNumber := first && json.Valid([]byte(text)) && strings.TrimSpace(text) == text; ok != isNumber {
			t.Fatalf("%q is a number: %v, read: %v", text, isNumber, ok)
		}
		if !ok || d.plainBytes() > 1<<16 {
			return
		}
		written := plain(d)
		again, ok := parseDecimal(written)
		if !ok || again.compare(&d) != 0 || plain(again) != written || int64(len(written)) != d.plainBytes() {
			t.Fatalf("%q is written as %q", text, written)
		}
	})
}
