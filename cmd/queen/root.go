package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"queen/cmd/queen/config"
)

// The exit codes of cluster 17.2 (serve) and operations 9.1 (everything else).
const (
	exitDone          = 0
	exitFatal         = 1 // FATAL of serve; wrong use or a local error of the other commands
	exitServeUsage    = 2 // serve: a wrong command line, or an unknown crash point
	exitServerRefused = 2 // the others: the server refused or is unhealthy
	exitNotAuthorised = 3
)

// process is what a command may touch of the process around it, so that tests can run commands in their own.
type process struct {
	environ []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	// asks is set when somebody sits there to answer a question; colours when the output is a terminal.
	asks, colours bool
}

// variable returns an environment variable, the last one of that name, or "".
func (p process) variable(name string) string {
	for _, pair := range slices.Backward(p.environ) {
		if value, found := strings.CutPrefix(pair, name+"="); found {
			return value
		}
	}
	return ""
}

// exitError carries the exit code of a failed command. A nil cause has been reported already.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

// run executes one command line and returns the exit code.
func run(ctx context.Context, arguments []string, around process) int {
	root := rootCommand(around)
	root.SetArgs(arguments)
	root.SetOut(around.stdout)
	root.SetErr(around.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	exit, typed := errors.AsType[*exitError](err)
	if !typed {
		exit = &exitError{code: exitFatal, cause: err}
	}
	if exit.cause != nil {
		fmt.Fprintf(around.stderr, "queen: %v\n", exit.cause)
	}
	return exit.code
}

// rootCommand is `queen`; without a subcommand it serves.
func rootCommand(around process) *cobra.Command {
	root := serveCommand(around)
	root.Use = "queen"
	root.Short = "Queen is a partitioned message broker"
	root.Long = "Queen is a partitioned message broker. Without a command it serves.\n\n" +
		"Every setting is an environment variable and a flag: QUEEN_RAFT_NODE_ID is --queen-raft-node-id.\n" +
		"`queen config show` lists them all."
	root.Args = cobra.ArbitraryArgs
	serveWithoutArguments := root.RunE
	root.RunE = func(command *cobra.Command, arguments []string) error {
		if len(arguments) > 0 {
			return fmt.Errorf("unknown command %q; `queen --help` lists them", arguments[0])
		}
		return serveWithoutArguments(command, arguments)
	}
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(around), configCommand(around), healthCommand(around), versionCommand(around),
		sleepCommand(), clusterCommand(around), benchCommand(around))
	// Flag errors of serve, spelt out or not, end with its own code; the other commands inherit from here.
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		if command == root || command.Name() == "serve" {
			return &exitError{code: exitServeUsage, cause: err}
		}
		return err
	})
	return root
}

// settingFlags gives a command the flag of every variable (cluster 1.1.1). They are hidden in the help: a hundred lines
// that say no more than `queen config show`.
func settingFlags(command *cobra.Command) {
	flags := command.Flags()
	for _, name := range config.Names() {
		flags.String(config.FlagName(name), "", "the variable "+name)
		flags.Lookup(config.FlagName(name)).Hidden = true
	}
	for _, name := range config.Switches() {
		flags.Lookup(config.FlagName(name)).NoOptDefVal = "true"
	}
}

// loadSettings reads the settings from the environment and the flags of a command. The config is filled also when the
// error is a config.Problems.
func loadSettings(command *cobra.Command, around process) (config.Config, error) {
	host, err := config.ThisHost()
	if err != nil {
		return config.Config{}, err
	}
	given := map[string]string{}
	for _, name := range config.Names() {
		if flag := command.Flags().Lookup(config.FlagName(name)); flag != nil && flag.Changed {
			given[name] = flag.Value.String()
		}
	}
	return config.Load(config.Input{Environ: around.environ, Flags: given, Host: host})
}
