package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scan reads a text with the scanner alone.
func scan(text []byte) (value []byte, err error) {
	s := newScanner(text)
	value = s.value()
	s.end()
	return value, s.err
}

// oracle reads a text with a library. It lets unpaired surrogates pass, as we do in payloads, so UTF-8 is checked apart.
func oracle(text []byte) (value []byte, ok bool) {
	if !utf8.Valid(text) {
		return nil, false
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	value, err := decoder.ReadValue()
	if err != nil {
		return nil, false
	}
	value = bytes.Clone(value)
	if _, err := decoder.ReadToken(); err != io.EOF {
		return nil, false
	}
	return value, true
}

func checkAgainstOracle(t *testing.T, text []byte) {
	t.Helper()
	want, ok := oracle(text)
	got, err := scan(text)
	if ok != (err == nil) {
		t.Fatalf("%.200q: the library says %t, we say %v", text, ok, err)
	}
	if ok && !bytes.Equal(got, want) {
		t.Fatalf("%.200q: value %.200q, the library has %.200q", text, got, want)
	}
}

var scannerTexts = []string{
	``, ` `, `null`, ` true `, `false`, `nul`, `nulll`, `truee`, `0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5`, `1e`, `1e+`, `1E-7`, `1e5.2`, `+1`,
	`"a"`, `"`, `"\"`, `"\u12"`, `"\u123g"`, `"\ud800"`, `"\ud83d\ude00"`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"tab\t\"", `"\x"`,
	`"12345678"`, `"1234567"`, "\"1234567\n\"", `"12345678\n"`, "\xff", "\"\xff\"", "\xef\xbb\xbf1", `"é"`, `"€€€€€€€€"`,
	`[]`, `[ ]`, `[1]`, `[1,2 , 3]`, `[1,]`, `[,1]`, `[1 2]`, `[`, `[1`, `[1,`, `]`, `[}`, `[1]]`, `[[[]]]`, `[[],{}]`,
	`{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1,"a":2}`, `{1:2}`, `{`, `{"a":1`, `{"a":{"b":[{"c":null}]}}`,
	`{"\u0061":1}`, "\v1", "1\f", `/*x*/1`, `NaN`, `Infinity`, `'a'`, "\u00a01", "[1]\x00",
}

func TestScannerAcceptsExactlyJSON(t *testing.T) {
	for _, text := range scannerTexts {
		checkAgainstOracle(t, []byte(text))
	}
}

// TestDamagedTextsAreJudgedAsTheLibraryDoes changes, removes and repeats bytes of good texts.
func TestDamagedTextsAreJudgedAsTheLibraryDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	base := pushBody(3)
	alphabet := []byte(`{}[]",:\u0129abefnrtl -+.E` + "\n\t\x00\xc3\xa9\xff")
	for range 20_000 {
		text := bytes.Clone(base)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(text))
			switch random.IntN(3) {
			case 0:
				text[at] = alphabet[random.IntN(len(alphabet))]
			case 1:
				text = append(text[:at], text[at+1:]...)
			default:
				text = append(text[:at+1], text[at:]...)
			}
		}
		checkAgainstOracle(t, text)
	}
}

func TestNestingEndsAt10000Levels(t *testing.T) {
	nested := func(open, middle, close string, levels int) []byte {
		return []byte(strings.Repeat(open, levels) + middle + strings.Repeat(close, levels))
	}
	for _, form := range []struct{ open, middle, close string }{{"[", "", "]"}, {`{"a":`, "1", "}"}, {`[{"a":`, "1", "}]"}} {
		step := strings.Count(form.open, "[") + strings.Count(form.open, "{")
		if _, err := scan(nested(form.open, form.middle, form.close, MaxDepth/step)); err != nil {
			t.Errorf("%s: 10,000 levels: %v", form.open, err)
		}
		if _, err := scan(nested(form.open, form.middle, form.close, MaxDepth/step+1)); err == nil {
			t.Errorf("%s: more than 10,000 levels were accepted", form.open)
		}
	}
	// The envelope counts: three of its levels stand around a payload.
	push := func(levels int) []byte {
		return append(append([]byte(`{"items":[{"queue":"q","payload":`), nested("[", "", "]", levels)...), `}]}`...)
	}
	if _, err := DecodePush(push(MaxDepth - 3)); err != nil {
		t.Errorf("a payload of 9,997 levels: %v", err)
	}
	if _, err := DecodePush(push(MaxDepth - 2)); err == nil {
		t.Error("a payload of 9,998 levels was accepted")
	}
}

func FuzzScanner(f *testing.F) {
	for _, text := range scannerTexts {
		f.Add([]byte(text))
	}
	f.Add(pushBody(2))
	f.Fuzz(func(t *testing.T, text []byte) { checkAgainstOracle(t, text) })
}

func FuzzStrings(f *testing.F) {
	for _, text := range []string{`"a"`, `"\n"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\u0000"`, `"\/\b\f"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if value, err := scan(raw); err != nil || len(value) != len(raw) || kindOf(raw) != kindString {
			return
		}
		got, exact := textBytes(raw)
		want, err := jsontext.AppendUnquote(nil, raw)
		if exact != (err == nil) {
			t.Fatalf("%q: exact %t, the library says %v", raw, exact, err)
		}
		if exact && !bytes.Equal(got, want) {
			t.Fatalf("%q: got %q, the library has %q", raw, got, want)
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q: %q is not UTF-8", raw, got)
		}
		again, exact := textBytes(AppendString(nil, got))
		if !exact || !bytes.Equal(again, got) {
			t.Fatalf("%q written and read again is %q", got, again)
		}
	})
}
