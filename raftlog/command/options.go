package command

// Options are the stored options of a queue (messaging 9.2). Times carry their unit in the name.
type Options struct {
	Namespace                   string
	Task                        string
	Priority                    int32
	LeaseTimeSeconds            int32
	RetryLimit                  int32
	RetryDelayMs                int32
	RetryDelayExplicit          bool
	MaxSize                     int32
	TTLSeconds                  int32
	DeadLetterQueue             bool
	DLQAfterMaxRetries          bool
	DelayedProcessingSeconds    int32
	WindowBufferSeconds         int32
	RetentionEnabled            bool
	RetentionSeconds            int32
	CompletedRetentionSeconds   int32
	MaxWaitTimeSeconds          int32
	MinPopWaitTimeMs            int32
	EncryptionEnabled           bool
	DedupWindowSeconds          int32
	RetentionSinkHold           string
	RetentionSinkHoldMaxSeconds int32
}

// ConfigureDefaults returns the options of a queue whose first mention is a configure.
func ConfigureDefaults() Options {
	return Options{
		LeaseTimeSeconds:            300,
		RetryLimit:                  3,
		RetryDelayMs:                1000,
		TTLSeconds:                  3600,
		DeadLetterQueue:             true,
		DLQAfterMaxRetries:          true,
		DedupWindowSeconds:          3600,
		RetentionSinkHoldMaxSeconds: 604800,
	}
}

// ImplicitDefaults returns the options of a queue that a push or a pop created: a dotted name gives namespace and task
// (messaging 4.4.2), the lease is 60 s.
func ImplicitDefaults(queue string) Options {
	options := ConfigureDefaults()
	options.LeaseTimeSeconds = 60
	options.Namespace, options.Task = namespaceAndTask(queue)
	return options
}

func namespaceAndTask(queue string) (namespace, task string) {
	first := -1
	for i := 0; i < len(queue); i++ {
		if queue[i] != '.' {
			continue
		}
		if first < 0 {
			first = i
			continue
		}
		return queue[:first], queue[first+1 : i]
	}
	if first < 0 {
		return queue, ""
	}
	return queue[:first], queue[first+1:]
}

// OptionKey names an option on the wire of the log. Numbers are never reused.
type OptionKey uint8

// The options of messaging 9.2, in the order of its table.
const (
	OptionNamespace OptionKey = iota + 1
	OptionTask
	OptionPriority
	OptionLeaseTime
	OptionRetryLimit
	OptionRetryDelay
	OptionMaxSize
	OptionTTL
	OptionDeadLetterQueue
	OptionDLQAfterMaxRetries
	OptionDelayedProcessing
	OptionWindowBuffer
	OptionRetentionEnabled
	OptionRetentionSeconds
	OptionCompletedRetentionSeconds
	OptionMaxWaitTimeSeconds
	OptionMinPopWaitTime
	OptionEncryptionEnabled
	OptionDedupWindowSeconds
	OptionRetentionSinkHold
	OptionRetentionSinkHoldMaxSeconds
)

// OptionChange sets one option. Reset restores the configure default; otherwise the field that fits the option's type
// holds the value.
type OptionChange struct {
	Key    OptionKey
	Reset  bool
	Number int32
	Flag   bool
	Text   string
}

// Apply returns the options with the changes made. replace starts from the configure defaults (messaging 9.1). Values
// were validated by the handler; Apply only stores them.
func (o Options) Apply(replace bool, changes []OptionChange) Options {
	defaults := ConfigureDefaults()
	if replace {
		o = defaults
	}
	for _, change := range changes {
		o.set(change, &defaults)
	}
	return o
}

func (o *Options) set(c OptionChange, defaults *Options) {
	number := func(field *int32, fallback int32) {
		*field = c.Number
		if c.Reset {
			*field = fallback
		}
	}
	flag := func(field *bool, fallback bool) {
		*field = c.Flag
		if c.Reset {
			*field = fallback
		}
	}
	text := func(field *string) {
		*field = c.Text
		if c.Reset {
			*field = ""
		}
	}
	switch c.Key {
	case OptionNamespace:
		text(&o.Namespace)
	case OptionTask:
		text(&o.Task)
	case OptionPriority:
		number(&o.Priority, defaults.Priority)
	case OptionLeaseTime:
		number(&o.LeaseTimeSeconds, defaults.LeaseTimeSeconds)
	case OptionRetryLimit:
		number(&o.RetryLimit, defaults.RetryLimit)
	case OptionRetryDelay:
		number(&o.RetryDelayMs, defaults.RetryDelayMs)
		o.RetryDelayExplicit = !c.Reset
	case OptionMaxSize:
		number(&o.MaxSize, defaults.MaxSize)
	case OptionTTL:
		number(&o.TTLSeconds, defaults.TTLSeconds)
	case OptionDeadLetterQueue:
		flag(&o.DeadLetterQueue, defaults.DeadLetterQueue)
	case OptionDLQAfterMaxRetries:
		flag(&o.DLQAfterMaxRetries, defaults.DLQAfterMaxRetries)
	case OptionDelayedProcessing:
		number(&o.DelayedProcessingSeconds, defaults.DelayedProcessingSeconds)
	case OptionWindowBuffer:
		number(&o.WindowBufferSeconds, defaults.WindowBufferSeconds)
	case OptionRetentionEnabled:
		flag(&o.RetentionEnabled, defaults.RetentionEnabled)
	case OptionRetentionSeconds:
		number(&o.RetentionSeconds, defaults.RetentionSeconds)
	case OptionCompletedRetentionSeconds:
		number(&o.CompletedRetentionSeconds, defaults.CompletedRetentionSeconds)
	case OptionMaxWaitTimeSeconds:
		number(&o.MaxWaitTimeSeconds, defaults.MaxWaitTimeSeconds)
	case OptionMinPopWaitTime:
		number(&o.MinPopWaitTimeMs, defaults.MinPopWaitTimeMs)
	case OptionEncryptionEnabled:
		flag(&o.EncryptionEnabled, defaults.EncryptionEnabled)
	case OptionDedupWindowSeconds:
		number(&o.DedupWindowSeconds, defaults.DedupWindowSeconds)
	case OptionRetentionSinkHold:
		text(&o.RetentionSinkHold)
	case OptionRetentionSinkHoldMaxSeconds:
		number(&o.RetentionSinkHoldMaxSeconds, defaults.RetentionSinkHoldMaxSeconds)
	}
}
