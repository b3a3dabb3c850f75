package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"queen/cmd/queen/config"
	"queen/cmd/queen/logging"
)

// gcPercent is the garbage collector's target when GOGC is not set. What lives long is small beside what a push leaves
// behind, while one collection visits every partition in memory: with a million partitions the library's 100 costs a sixth
// of the CPU. GOMEMLIMIT bounds the process where memory is short.
const gcPercent = 200

// serveCommand is `queen serve`: settings, log, signals, then the node itself.
func serveCommand(around process) *cobra.Command {
	command := &cobra.Command{
		Use:   "serve",
		Short: "run the node (default)",
		Args: func(command *cobra.Command, arguments []string) error {
			if err := cobra.NoArgs(command, arguments); err != nil {
				return &exitError{code: exitServeUsage, cause: err}
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, problem := loadSettings(command, around)
			log, err := bootLog(around, cfg)
			if err != nil {
				return err
			}
			if problem != nil {
				return refuseStart(log, problem)
			}
			announce(log, cfg)
			if _, set := os.LookupEnv("GOGC"); !set {
				debug.SetGCPercent(gcPercent)
			}
			ctx, stop := watchSignals(command.Context(), log)
			defer stop()
			if err := serve(ctx, cfg, log); err != nil {
				return refuseStart(log, err)
			}
			return nil
		},
	}
	settingFlags(command)
	return command
}

// bootLog makes the logger that cfg asks for, also of a cfg with refused values: then its defaults hold.
func bootLog(around process, cfg config.Config) (zerolog.Logger, error) {
	level := cfg.LogLevel
	if level == "" {
		level = "info" // the settings could not be read at all
	}
	log, err := logging.New(around.stderr, logging.Options{Level: level, JSON: cfg.LogJSON})
	if err != nil {
		return log, fmt.Errorf("open log: %w", err)
	}
	return log, nil
}

// announce logs the effective settings and what is odd about them (cluster 1.1.6, 1.1.7).
func announce(log zerolog.Logger, cfg config.Config) {
	for _, line := range cfg.BootLines() {
		log.Info().Msg(line)
	}
	log.Info().Msg(cfg.DirectoryLine())
	for _, line := range cfg.Warnings() {
		log.Warn().Msg(line)
	}
}

// refuseStart logs every refusal as a FATAL line and returns the exit code (cluster 1.1.5, 17.2).
func refuseStart(log zerolog.Logger, err error) error {
	problems, isConfig := errors.AsType[config.Problems](err)
	if !isConfig {
		log.Error().Msg("FATAL: " + err.Error())
		return &exitError{code: exitFatal}
	}
	for _, problem := range problems {
		log.Error().Msg("FATAL: " + problem.Error())
	}
	return &exitError{code: problems.ExitCode()}
}
