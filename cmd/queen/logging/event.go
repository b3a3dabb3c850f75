package logging

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
)

// event is a zerolog event taken apart. Fields keep their order.
type event struct {
	level   string
	target  string
	message string
	fields  []field
}

// field is one key of an event with its JSON value.
type field struct {
	key   string
	value jsontext.Value
}

// parseEvent never fails: what is not an event is kept as the message, because a strange line beats a lost one.
func parseEvent(raw []byte) event {
	parsed := event{level: "INFO", target: DefaultTarget}
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	unreadable := func() event {
		return event{level: "ERROR", target: DefaultTarget, message: strings.TrimSpace(string(raw))}
	}
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return unreadable()
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return unreadable()
		}
		key := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return unreadable()
		}
		switch key {
		case zerolog.LevelFieldName:
			parsed.level = strings.ToUpper(unquote(value))
		case zerolog.MessageFieldName:
			parsed.message = unquote(value)
		case targetField:
			parsed.target = unquote(value) // a nested logger repeats the field; the innermost wins
		default:
			value = value.Clone()
			if err := value.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
				return unreadable()
			}
			parsed.fields = append(parsed.fields, field{key: key, value: value})
		}
	}
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '}' {
		return unreadable()
	}
	return parsed
}

// unquote returns the text of a JSON string, and any other value as it is written.
func unquote(value jsontext.Value) string {
	if value.Kind() != '"' {
		return string(value)
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return string(value)
	}
	return string(text)
}

// appendText appends `<stamp> LEVEL target: message key=value …` and a line feed.
func (e event) appendText(line []byte, stamp string) []byte {
	line = append(line, stamp...)
	line = append(line, ' ')
	line = append(line, e.level...)
	line = append(line, ' ')
	line = append(line, oneLine(e.target)...)
	line = append(line, ": "...)
	line = append(line, oneLine(e.message)...)
	for _, field := range e.fields {
		line = append(line, ' ')
		line = append(line, oneLine(field.key)...)
		line = append(line, '=')
		line = appendTextValue(line, field.value)
	}
	return append(line, '\n')
}

// appendTextValue writes a value bare where it stays readable and quoted where a reader could not tell its end.
func appendTextValue(line []byte, value jsontext.Value) []byte {
	text := unquote(value)
	if value.Kind() != '"' {
		return append(line, text...)
	}
	if text == "" || strings.ContainsFunc(text, needsQuotes) {
		return strconv.AppendQuote(line, text)
	}
	return append(line, text...)
}

func needsQuotes(r rune) bool {
	return r <= ' ' || r == '"' || r == '=' || r == '\\' || !strconv.IsPrint(r)
}

// oneLine keeps what a client or a peer sent from starting a line of its own.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// appendJSON appends {"ts","level","target","msg",…} and a line feed.
func (e event) appendJSON(line []byte, stamp string) []byte {
	line = append(line, `{"ts":"`...)
	line = append(line, stamp...)
	line = append(line, `","level":`...)
	line = appendQuoted(line, e.level)
	line = append(line, `,"target":`...)
	line = appendQuoted(line, e.target)
	line = append(line, `,"msg":`...)
	line = appendQuoted(line, e.message)
	for _, field := range e.fields {
		line = append(line, ',')
		line = appendQuoted(line, field.key)
		line = append(line, ':')
		line = append(line, field.value...)
	}
	return append(line, "}\n"...)
}

// appendQuoted writes text as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendQuoted(line []byte, text string) []byte {
	quoted, err := jsontext.AppendQuote(line, strings.ToValidUTF8(text, "\ufffd"))
	if err != nil {
		return append(line, `""`...)
	}
	return quoted
}
