package wire

import (
	"errors"
	"fmt"
	"strconv"

	"queen/raftlog/command"
)

// Configure is the body of a configure (messaging 9.1). Changes hold one element per option that was sent, in the order
// of the table of 9.2.
type Configure struct {
	Queue   string
	Replace bool
	Changes []command.OptionChange
}

// optionType is the JSON type of an option.
type optionType uint8

const (
	optionText optionType = iota
	optionNumber
	optionFlag
	optionSink
)

// Ranges of the options that have one (messaging 9.2).
const (
	minLeaseTimeSeconds = 1
	minSinkHoldSeconds  = 60
	maxSinkHoldSeconds  = 31_536_000
	maxMinPopWaitMs     = 60_000
	maxSinkNameBytes    = 64
	maxInt32            = 1<<31 - 1
)

// option describes how one option is read.
type option struct {
	name     string
	key      command.OptionKey
	kind     optionType
	min, max int64
	// clamp makes a number above max count as max.
	clamp bool
}

// optionTable lists the options of messaging 9.2.
var optionTable = [...]option{
	{name: "namespace", key: command.OptionNamespace, kind: optionText},
	{name: "task", key: command.OptionTask, kind: optionText},
	{name: "priority", key: command.OptionPriority, kind: optionNumber, max: maxInt32},
	{name: "leaseTime", key: command.OptionLeaseTime, kind: optionNumber, min: minLeaseTimeSeconds, max: maxInt32},
	{name: "retryLimit", key: command.OptionRetryLimit, kind: optionNumber, max: maxInt32},
	{name: "retryDelay", key: command.OptionRetryDelay, kind: optionNumber, max: maxInt32},
	{name: "maxSize", key: command.OptionMaxSize, kind: optionNumber, max: maxInt32},
	{name: "ttl", key: command.OptionTTL, kind: optionNumber, max: maxInt32},
	{name: "deadLetterQueue", key: command.OptionDeadLetterQueue, kind: optionFlag},
	{name: "dlqAfterMaxRetries", key: command.OptionDLQAfterMaxRetries, kind: optionFlag},
	{name: "delayedProcessing", key: command.OptionDelayedProcessing, kind: optionNumber, max: maxInt32},
	{name: "windowBuffer", key: command.OptionWindowBuffer, kind: optionNumber, max: maxInt32},
	{name: "retentionEnabled", key: command.OptionRetentionEnabled, kind: optionFlag},
	{name: "retentionSeconds", key: command.OptionRetentionSeconds, kind: optionNumber, max: maxInt32},
	{name: "completedRetentionSeconds", key: command.OptionCompletedRetentionSeconds, kind: optionNumber, max: maxInt32},
	{name: "maxWaitTimeSeconds", key: command.OptionMaxWaitTimeSeconds, kind: optionNumber, max: maxInt32},
	{name: "minPopWaitTime", key: command.OptionMinPopWaitTime, kind: optionNumber, max: maxMinPopWaitMs, clamp: true},
	{name: "encryptionEnabled", key: command.OptionEncryptionEnabled, kind: optionFlag},
	{name: "dedupWindowSeconds", key: command.OptionDedupWindowSeconds, kind: optionNumber, max: maxInt32},
	{name: "retentionSinkHold", key: command.OptionRetentionSinkHold, kind: optionSink},
	{name: "retentionSinkHoldMaxSeconds", key: command.OptionRetentionSinkHoldMaxSeconds, kind: optionNumber,
		min: minSinkHoldSeconds, max: maxSinkHoldSeconds},
}

const configurePrefix = "bad configure body: "

// DecodeConfigure reads the body of a configure. Nothing of the result aliases the body. The error is an *Error: bad_body,
// or bad_request with Invalid set when an option is refused.
func DecodeConfigure(body []byte) (*Configure, error) {
	var top, under rawOptions
	var queue, mode, options []byte
	s := newScanner(body)
	opened := s.open('{')
	if !opened {
		s.value()
	}
	for opened && s.member() {
		switch string(s.name) {
		case "queue":
			queue = s.value()
		case "mode":
			mode = s.value()
		case "options":
			options = s.value()
		default:
			top.keep(&s)
		}
	}
	s.end()
	switch {
	case s.err != nil:
		return nil, badBody(configurePrefix, s.err)
	case !opened:
		return nil, badBody(configurePrefix, errNotAnObject)
	}
	c := &Configure{}
	var ok bool
	if c.Queue, ok = textString(queue); !ok {
		return nil, badRequest("queue is required")
	}
	if !nothing(mode) {
		text, _ := looseText(mode)
		if text != "merge" && text != "replace" {
			return nil, badRequest("mode must be \"merge\" or \"replace\", got %s", compact(mode))
		}
		c.Replace = text == "replace"
	}
	if nothing(options) {
		under = top
		under.dropUnusable()
	} else {
		nested := scanner{data: options}
		if !nested.open('{') {
			return nil, badBody(configurePrefix, errors.New("options must be an object"))
		}
		for nested.member() {
			under.keep(&nested)
		}
		under.inherit(&top)
	}
	return c, c.read(&under)
}

// rawOptions holds the text of each option by its place in optionTable; nil ones are absent.
type rawOptions [len(optionTable)][]byte

// The places of the two options that may stand at top level beside an options member.
const (
	namespaceAt = 0
	taskAt      = 1
)

func (r *rawOptions) keep(s *scanner) {
	for i := range optionTable {
		if string(s.name) == optionTable[i].name {
			r[i] = s.value()
			return
		}
	}
	s.value()
}

// usable reports whether a namespace or task at top level counts: only a string that is not empty does.
func usable(raw []byte) bool {
	text, ok := textBytes(raw)
	return ok && len(text) > 0
}

// dropUnusable ignores a namespace or task at top level that does not count.
func (r *rawOptions) dropUnusable() {
	for _, at := range []int{namespaceAt, taskAt} {
		if !usable(r[at]) {
			r[at] = nil
		}
	}
}

// inherit takes namespace and task over from the top level when they are missing here.
func (r *rawOptions) inherit(top *rawOptions) {
	for _, at := range []int{namespaceAt, taskAt} {
		if r[at] == nil && usable(top[at]) {
			r[at] = top[at]
		}
	}
}

func (c *Configure) read(raw *rawOptions) error {
	for i := range optionTable {
		if raw[i] == nil {
			continue
		}
		change, err := optionTable[i].read(raw[i])
		if err != nil {
			return err
		}
		c.Changes = append(c.Changes, change)
	}
	return nil
}

// read makes the change that one option asks for. Null restores the default.
func (o *option) read(raw []byte) (command.OptionChange, error) {
	change := command.OptionChange{Key: o.key, Reset: kindOf(raw) == kindNull}
	if change.Reset {
		return change, nil
	}
	var ok bool
	switch o.kind {
	case optionText, optionSink:
		if change.Text, ok = textString(raw); !ok {
			change.Text, change.Reset = "", true
		}
		if o.kind == optionSink && !sinkName(change.Text) {
			return change, o.refuse("must match [A-Za-z0-9._-]{0,64}")
		}
	case optionFlag:
		if kindOf(raw) != kindBool {
			return change, o.refuse("must be a boolean")
		}
		change.Flag = raw[0] == 't'
	case optionNumber:
		number, err := o.number(raw)
		if err != nil {
			return change, err
		}
		change.Number = number
	}
	return change, nil
}

func (o *option) number(raw []byte) (int32, error) {
	number, err := strconv.ParseInt(string(raw), 10, 32)
	switch {
	case kindOf(raw) != kindNumber || err != nil:
		return 0, o.refuse("must be an integer")
	case number < 0:
		return 0, o.refuse("must not be negative")
	case o.clamp:
		number = min(number, o.max)
	case number < o.min || number > o.max:
		return 0, o.refuse(fmt.Sprintf("must be from %d to %d", o.min, o.max))
	}
	return int32(number), nil
}

func (o *option) refuse(what string) *Error {
	return &Error{Code: CodeBadRequest, Text: o.name + " " + what, Invalid: o.name}
}

// sinkName reports whether a text may name a sink group.
func sinkName(text string) bool {
	if len(text) > maxSinkNameBytes {
		return false
	}
	for i := range len(text) {
		c := text[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// maxEchoBytes bounds how much of a client's value an error text repeats.
const maxEchoBytes = 256

// compact returns a JSON value without the white space between its tokens, cut when it is long.
func compact(raw []byte) []byte {
	dst := appendCompact(make([]byte, 0, min(len(raw), maxEchoBytes)), raw, maxEchoBytes)
	return dst[:min(len(dst), maxEchoBytes)]
}

// appendCompact appends a JSON value without the white space between its tokens, and ends with the token that exceeds most bytes.
func appendCompact(dst, raw []byte, most int) []byte {
	s := scanner{data: raw}
	for s.peek() != 0 && len(dst) <= most {
		start := s.pos
		if raw[start] == '"' {
			s.text()
		} else {
			s.pos++
		}
		dst = append(dst, raw[start:s.pos]...)
	}
	return dst
}
