package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"queen/cmd/queen/config"
)

// configCommand is `queen config check` and `queen config show` (cluster 1.1.8).
func configCommand(around process) *cobra.Command {
	command := &cobra.Command{Use: "config", Short: "check and show the settings"}
	check := &cobra.Command{
		Use:   "check",
		Short: "check the settings without starting; exits 0 or 1",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, err := loadSettings(command, around)
			for _, line := range cfg.Warnings() {
				fmt.Fprintln(around.stderr, "WARN: "+line)
			}
			if err != nil {
				return printFatal(around, err)
			}
			fmt.Fprintln(around.stdout, "the settings are valid")
			return nil
		},
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "print every setting with its effective value and source; secrets are masked",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			format, err := command.Flags().GetString("output")
			if err != nil {
				return err
			}
			cfg, problem := loadSettings(command, around)
			if err := showSettings(around, cfg, format); err != nil {
				return err
			}
			if problem != nil {
				return printFatal(around, problem)
			}
			return nil
		},
	}
	show.Flags().StringP("output", "o", "table", "table or json")
	settingFlags(check)
	settingFlags(show)
	command.AddCommand(check, show)
	return command
}

func showSettings(around process, cfg config.Config, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(around.stdout)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(map[string]any{"settings": cfg.Settings()})
	case "table":
		table := tabwriter.NewWriter(around.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NAME\tVALUE\tSOURCE")
		for _, setting := range cfg.Settings() {
			fmt.Fprintf(table, "%s\t%s\t%s\n", setting.Name, setting.Value, setting.Source)
		}
		return table.Flush()
	default:
		return fmt.Errorf("output %q: want table or json", format)
	}
}

// printFatal prints refused settings as `queen serve` would log them. These commands exit with 1 for all of them.
func printFatal(around process, err error) error {
	problems, isConfig := errors.AsType[config.Problems](err)
	if !isConfig {
		return err
	}
	for _, problem := range problems {
		fmt.Fprintln(around.stderr, "FATAL: "+problem.Error())
	}
	return &exitError{code: exitFatal}
}
