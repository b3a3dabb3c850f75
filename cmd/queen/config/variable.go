package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// variable is one row of the table: how a text becomes a field of a Config.
type variable struct {
	name string
	// allowed completes the sentence "want …" (cluster 1.1.5) and is shown in the settings list.
	allowed string
	// hide turns a text into what may be shown of it; nil shows it as it is.
	hide func(text string) string
	// standard gives the text of the default; it may depend on settings that stand before it, or were set explicitly. The empty text leaves the
	// field at its zero value.
	standard func() string
	// parse stores the text in the field and returns the form in which the setting is shown.
	parse func(text string) (shown string, err error)
}

// integer is every type in which the Config keeps a whole number.
type integer interface {
	~int | ~int64 | ~uint32
}

// limits is the allowed range of a number, both ends included.
type limits struct {
	low, high int64
	orZero    bool // 0 is allowed although it lies below low
}

func between(low, high int64) limits       { return limits{low: low, high: high} }
func zeroOrBetween(low, high int64) limits { return limits{low: low, high: high, orZero: true} }

func (l limits) String() string {
	text := fmt.Sprintf("a whole number from %d to %d", l.low, l.high)
	if l.orZero {
		return "0 or " + text
	}
	return text
}

func (l limits) contain(value int64) bool {
	return value >= l.low && value <= l.high || l.orZero && value == 0
}

func fixed(text string) func() string { return func() string { return text } }

// errNotAllowed is returned by parsers whose refusal needs no other words than the allowed values.
var errNotAllowed = fmt.Errorf("not an allowed value")

// parseWhole accepts digits only: no sign, no spaces, no exponent, no underscore.
func parseWhole(text string) (int64, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, errNotAllowed
	}
	return strconv.ParseInt(text, 10, 64)
}

// number is a whole number with a fixed default.
func number[T integer](name string, field *T, standard int64, allowedRange limits) variable {
	return derivedNumber(name, field, allowedRange, fixed(strconv.FormatInt(standard, 10)))
}

// derivedNumber is a whole number whose default follows from other settings, or that has none.
func derivedNumber[T integer](name string, field *T, allowedRange limits, standard func() string) variable {
	return variable{name: name, allowed: allowedRange.String(), standard: standard, parse: func(text string) (string, error) {
		value, err := parseWhole(text)
		if err != nil || !allowedRange.contain(value) {
			return "", errNotAllowed
		}
		*field = T(value)
		return strconv.FormatInt(value, 10), nil
	}}
}

const allowedBooleans = "true, false, 1, 0, yes, no, on or off"

func boolean(name string, field *bool, standard bool) variable {
	return derivedBoolean(name, field, fixed(strconv.FormatBool(standard)))
}

func derivedBoolean(name string, field *bool, standard func() string) variable {
	return variable{name: name, allowed: allowedBooleans, standard: standard, parse: func(text string) (string, error) {
		switch strings.ToLower(text) {
		case "true", "1", "yes", "on":
			*field = true
		case "false", "0", "no", "off":
			*field = false
		default:
			return "", errNotAllowed
		}
		return strconv.FormatBool(*field), nil
	}}
}

func choice(name string, field *string, standard string, words ...string) variable {
	last := len(words) - 1
	allowed := strings.Join(words[:last], ", ") + " or " + words[last]
	return variable{name: name, allowed: allowed, standard: fixed(standard), parse: func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", errNotAllowed
		}
		*field = text
		return text, nil
	}}
}

// text is any text; allowed describes it to people.
func text(name string, field *string, standard, allowed string) variable {
	return derivedText(name, field, allowed, fixed(standard), nil)
}

// derivedText is a text with a computed default and, unless nil, a rule that it must keep.
func derivedText(name string, field *string, allowed string, standard func() string, rule func(string) bool) variable {
	return variable{name: name, allowed: allowed, standard: standard, parse: func(text string) (string, error) {
		if rule != nil && !rule(text) {
			return "", errNotAllowed
		}
		*field = text
		return text, nil
	}}
}

// masked marks a variable as a secret.
func masked(v variable) variable {
	v.hide = mask
	return v
}

// parsed is a variable with a type and a parser of its own.
func parsed[T any](name string, field *T, allowed string, parse func(string) (T, error)) variable {
	return variable{name: name, allowed: allowed, standard: fixed(""), parse: func(text string) (string, error) {
		value, err := parse(text)
		if err != nil {
			return "", err
		}
		*field = value
		return text, nil
	}}
}
