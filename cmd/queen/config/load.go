package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Source says where an effective value comes from (cluster 1.1.8).
type Source string

// The sources, weakest first.
const (
	SourceDefault Source = "default"
	SourceEnv     Source = "env"
	SourceFlag    Source = "flag"
)

// Input is everything that Load reads.
type Input struct {
	// Environ lists NAME=value pairs as os.Environ does.
	Environ []string
	// Flags holds the variables that the command line sets, by variable name. They win over Environ.
	Flags map[string]string
	Host  Host
}

// Load reads the settings and checks them (cluster 1.1, rules 1 to 6 and the cross-checks). The error, when there is one,
// is a Problems with every refusal, not only the first. The Config is complete also then, with defaults in place of
// refused values, so that a caller can still log in the wanted format; it must not be served with.
func Load(input Input) (Config, error) {
	config := Config{}
	environment := map[string]string{}
	for _, pair := range input.Environ {
		if name, value, found := strings.Cut(pair, "="); found {
			environment[name] = value
		}
	}
	rows := table(&config, input.Host)
	problems := config.assign(rows, environment, input.Flags)
	// A refused value would only produce misleading cross-checks on top.
	if len(problems) == 0 {
		problems = config.Validate()
	}
	config.warnings = append(unknownNames(rows, environment), config.oddities()...)
	if len(problems) > 0 {
		return config, problems
	}
	return config, nil
}

// assign fills the fields in two passes: what is set first, because the defaults of other variables depend on it.
func (c *Config) assign(rows []variable, environment, flags map[string]string) Problems {
	var problems Problems
	settings := make([]Setting, len(rows))
	for i, row := range rows {
		setting := Setting{Name: row.name, Source: SourceDefault, Allowed: row.allowed}
		given, source := environment[row.name], SourceEnv
		// An empty flag is a set flag: it hides the environment, and then means the default like every empty value.
		if value, set := flags[row.name]; set {
			given, source = value, SourceFlag
		}
		if given != "" {
			shown, err := row.parse(given)
			if err == nil {
				setting.Value, setting.Source = row.show(shown), source
			} else {
				problems = append(problems, row.problem(given, err))
			}
		}
		settings[i] = setting
	}
	for i, row := range rows {
		standard := row.standard()
		settings[i].Default = row.show(standard)
		if settings[i].Source != SourceDefault || standard == "" {
			continue
		}
		shown, err := row.parse(standard)
		if err != nil {
			problems = append(problems, row.problem(standard, err))
			continue
		}
		settings[i].Value = row.show(shown)
	}
	c.settings = settings
	return problems
}

func (v variable) show(text string) string {
	if v.hide == nil {
		return text
	}
	return v.hide(text)
}

func (v variable) problem(text string, err error) Problem {
	return Problem{Variable: v.name, Value: v.show(text), Want: v.allowed, unknownPoint: errors.Is(err, errUnknownPoint)}
}

// Problem is one refused setting. Its text follows the word FATAL (cluster 1.1.5).
type Problem struct {
	Variable string
	Value    string // masked when the variable is a secret
	Want     string // what is allowed

	unknownPoint bool
}

// maxShownValueBytes keeps the line of a refused certificate or peer list readable.
const maxShownValueBytes = 200

// Error returns NAME="value": want what.
func (p Problem) Error() string {
	value := p.Value
	if len(value) > maxShownValueBytes {
		value = strings.ToValidUTF8(value[:maxShownValueBytes], "") + "…"
	}
	return fmt.Sprintf("%s=%q: want %s", p.Variable, value, p.Want)
}

// Problems is every refusal of one Load, in the order of the table.
type Problems []Problem

// Error joins the refusals, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// ExitCode is 1, and 2 when nothing but an unknown point of QUEEN_TEST_FAULTS is wrong (cluster 17.2).
func (p Problems) ExitCode() int {
	if !slices.ContainsFunc(p, func(problem Problem) bool { return !problem.unknownPoint }) {
		return 2
	}
	return 1
}

// Names lists every variable in the order of the specification.
func Names() []string {
	rows := table(&Config{}, Host{})
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = row.name
	}
	return names
}

// Switches lists the variables that are booleans, whose flags need no value.
func Switches() []string {
	var names []string
	for _, row := range table(&Config{}, Host{}) {
		if row.allowed == allowedBooleans {
			names = append(names, row.name)
		}
	}
	return names
}

// FlagName is the flag of a variable: QUEEN_RAFT_NODE_ID is queen-raft-node-id (cluster 1.1.1).
func FlagName(variable string) string {
	return strings.ReplaceAll(strings.ToLower(variable), "_", "-")
}
