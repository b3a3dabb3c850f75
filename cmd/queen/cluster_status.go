package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/cmd/queen/admin"
)

// watchEvery is the pause between two looks of `cluster status --watch`.
const watchEvery = 2 * time.Second

// statusCommand is `queen cluster status`.
func statusCommand(flags *clusterFlags) *cobra.Command {
	var options admin.SurveyOptions
	var watch bool
	command := &cobra.Command{
		Use:   "status",
		Short: "show nodes, membership, plan and health; exits 0 only when everything is well",
		Long: "Show nodes, membership, plan and health; exits 0 only when everything is well.\n\n" +
			"Health is asked of each node by its own HTTP address, or by that of --server. A node that gives no answer from here shows - and\n" +
			"is judged by what the other nodes know of it. What is not well names the section of the operations manual to go to.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return flags.with(command, func(ctx context.Context, client *admin.Client) error {
				if watch {
					return flags.watchStatus(ctx, client, options)
				}
				return flags.status(ctx, client, options)
			})
		},
	}
	command.Flags().BoolVar(&options.Probe, "probe", false, "write a key through every node and show how long that takes")
	command.Flags().BoolVar(&watch, "watch", false, "look again every 2 s until Ctrl-C")
	return command
}

// status looks once. Its error carries the exit code.
func (f *clusterFlags) status(ctx context.Context, client *admin.Client, options admin.SurveyOptions) error {
	survey, err := client.Survey(ctx, options)
	if err != nil {
		return err
	}
	if err := f.showSurvey(survey, options.Probe); err != nil {
		return err
	}
	if !survey.Well {
		return &exitError{code: exitServerRefused}
	}
	return nil
}

// watchStatus looks until the command is interrupted. The exit code is that of the last look.
func (f *clusterFlags) watchStatus(ctx context.Context, client *admin.Client, options admin.SurveyOptions) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last error
	for {
		if f.around.colours && f.format == "table" && !f.quiet {
			fmt.Fprint(f.around.stdout, "\x1b[H\x1b[2J") // the next look replaces this one
		}
		err := withExitCode(f.status(ctx, client, options))
		if ctx.Err() != nil {
			return last // the look was cut short
		}
		last = err
		if exit, failed := errors.AsType[*exitError](err); failed && exit.cause != nil {
			fmt.Fprintf(f.around.stderr, "queen: %v\n", exit.cause)
			exit.cause = nil // it has been said
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return last
		}
	}
}

func (f *clusterFlags) showSurvey(survey *admin.Survey, probed bool) error {
	if f.format != "table" {
		var document bytes.Buffer
		encoder := json.NewEncoder(&document)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(survey); err != nil {
			return fmt.Errorf("encode status: %w", err)
		}
		return f.showData(document.Bytes())
	}
	if f.quiet {
		return nil
	}
	view := &survey.View
	fmt.Fprintf(f.around.stdout, "cluster %s, epoch %d\n%s, index %d\n", view.ClusterID, view.ClusterEpoch, membersLine(view), view.MembershipIndex)
	if view.Plan != nil {
		fmt.Fprintf(f.around.stdout, "plan    %s\n", view.Plan)
	}
	headers := []string{"NODE", "ROLE", "STATE", "HEALTH", "IDENTITY", "APPLIED", "LAG", "DISK", "CLOCK", "VERSION", "RAFT", "HTTP"}
	if probed {
		headers = append(headers, "PROBE")
	}
	table := f.table(headers...)
	for i, member := range view.Members {
		cells := surveyRow(survey, member)
		if probed {
			cells = append(cells, probeCell(survey.Probes[i]))
		}
		table.row(cells...)
	}
	if err := table.flush(); err != nil {
		return err
	}
	f.showFindings(survey.Findings)
	return nil
}

func surveyRow(survey *admin.Survey, member admin.Member) []string {
	node := admin.Node{State: "-", Identity: member.Identity, Version: "-"}
	if seen := survey.Node(member.NodeID); seen != nil {
		node = *seen
	}
	health := "-"
	if said := survey.HealthOf(member.NodeID); said != nil && said.Status != 0 {
		health = said.Said.Status
	}
	disk, clock := "-", "-"
	if node.DiskPct != nil {
		disk = strconv.FormatFloat(*node.DiskPct, 'f', 1, 64) + "%"
	}
	if node.ClockSkewMs != nil {
		clock = fmt.Sprintf("%+.0fms", *node.ClockSkewMs)
	}
	cells := []string{strconv.FormatUint(member.NodeID, 10), roleOf(member), node.State, health, node.Identity,
		number(node.AppliedIndex), number(node.LagEntries), disk, clock, node.Version, member.Raft, member.HTTP}
	for i, cell := range cells {
		if cell == "" {
			cells[i] = "-"
		}
	}
	return cells
}

func probeCell(probe admin.ProbeReport) string {
	if probe.Error != "" {
		return "failed"
	}
	return strconv.FormatInt(probe.Ms, 10) + "ms"
}

// showFindings says what is not well, and where to read on.
func (f *clusterFlags) showFindings(findings []admin.Finding) {
	if len(findings) == 0 {
		fmt.Fprintln(f.around.stdout, f.paint("32", "everything is well"))
		return
	}
	for _, finding := range findings {
		line := finding.Text
		if finding.NodeID != 0 {
			line = fmt.Sprintf("node %d %s", finding.NodeID, line)
		}
		fmt.Fprintln(f.around.stdout, f.paint("31", "! "+strings.TrimSpace(line))+"  (operations "+finding.Section+")")
	}
}

// paint colours a text on a terminal; 31 is red, 32 green.
func (f *clusterFlags) paint(code, text string) string {
	if !f.around.colours || f.noColour || f.around.variable("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
