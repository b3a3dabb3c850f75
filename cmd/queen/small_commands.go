package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/cmd/queen/version"
)

// versionCommand is `queen version`: version, format, Go version, platform.
func versionCommand(around process) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "version",
		Short: "print version, format, Go version and platform",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := version.Get()
			if asJSON {
				return json.NewEncoder(around.stdout).Encode(info)
			}
			fmt.Fprintf(around.stdout, "queen %s\nformat %d\n%s\n%s\n", info.Version, info.Format, info.Go, info.Platform)
			if info.Revision != "" {
				fmt.Fprintf(around.stdout, "commit %s modified=%t\n", info.Revision, info.Modified)
			}
			return nil
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return command
}

// maxSleepSeconds bounds `queen sleep`: a hook that sleeps longer than a grace period is a mistake.
const maxSleepSeconds = 3600

// sleepCommand is `queen sleep N`, for hooks in an image without a shell.
func sleepCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sleep SECONDS",
		Short: "wait, for hooks in an image without shell",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			seconds, err := strconv.ParseFloat(arguments[0], 64)
			if err != nil || !(seconds >= 0 && seconds <= maxSleepSeconds) {
				return fmt.Errorf("sleep %q: want seconds from 0 to %d", arguments[0], maxSleepSeconds)
			}
			timer := time.NewTimer(time.Duration(seconds * float64(time.Second)))
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil
			case <-command.Context().Done():
				return command.Context().Err()
			}
		},
	}
}
