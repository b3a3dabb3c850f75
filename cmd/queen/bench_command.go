package main

import (
	"encoding/json"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"queen/cmd/queen/bench"
)

// benchCommand is `queen bench [push|pop|mixed]`. It exits with 1 when messages were missing, duplicate, altered or out of
// order.
func benchCommand(around process) *cobra.Command {
	options := bench.Defaults()
	format := "table"
	command := &cobra.Command{
		Use:   "bench [push|pop|mixed]",
		Short: "measure a broker: rates, latency percentiles, CPU per message, exact delivery",
		Long: "Measure a broker. push only pushes; pop consumes what is in --queue or what --prefill puts there; mixed pushes,\n" +
			"pops and acks, waits until everything is consumed, and checks that every message came exactly once and in order.\n\n" +
			"Without --rate every client sends its next request when the previous one is answered (closed loop). With --rate\n" +
			"requests have a schedule and latency counts from the scheduled instant (open loop).",
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			if len(arguments) == 1 {
				options.Mode = bench.Mode(arguments[0])
			}
			if format != "table" && format != "json" {
				return fmt.Errorf("output %q: want table or json", format)
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			result, err := bench.Run(ctx, options, around.stderr)
			if err != nil {
				return fmt.Errorf("run bench: %w", err)
			}
			if err := printResult(around, result, format); err != nil {
				return err
			}
			if result.Failed() {
				return &exitError{code: exitFatal}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Server, "server", options.Server, "base URL of the broker")
	flags.StringVar(&options.Token, "token", "", "bearer token")
	flags.StringVar(&options.Queue, "queue", "", "queue name, or its stem with --queues (default bench-<run>)")
	flags.IntVar(&options.Queues, "queues", options.Queues, "queues")
	flags.IntVar(&options.Partitions, "partitions", options.Partitions, "partitions of each queue")
	flags.IntVar(&options.Batch, "batch", options.Batch, "messages of one push, and most messages of one pop")
	flags.IntVar(&options.SizeBytes, "size", options.SizeBytes, "bytes of one payload")
	flags.BoolVar(&options.Spread, "spread", false, "every message of a batch goes to a partition of its own")
	flags.IntVar(&options.Clients, "clients", options.Clients, "pushing connections")
	flags.Float64Var(&options.Rate, "rate", 0, "messages per second of all pushing connections; 0 is a closed loop")
	flags.IntVar(&options.Consumers, "consumers", options.Consumers, "popping connections")
	flags.StringVar(&options.Group, "group", "", "consumer group (default queue mode)")
	flags.IntVar(&options.PopPartitions, "pop-partitions", 0, "partitions one pop may claim; 0 is one per message of a batch, at most 64")
	flags.BoolVar(&options.AutoAck, "auto-ack", false, "commit on delivery instead of acks")
	flags.IntVar(&options.LeaseSeconds, "lease", options.LeaseSeconds, "lease of a pop in seconds")
	flags.DurationVar(&options.PopWait, "pop-wait", options.PopWait, "long poll of a pop")
	flags.DurationVar(&options.Warmup, "warmup", options.Warmup, "load before the measured window")
	flags.DurationVar(&options.Duration, "duration", options.Duration, "measured window")
	flags.Int64Var(&options.Prefill, "prefill", 0, "messages pushed before the run, not measured; rounded up to whole batches")
	flags.DurationVar(&options.DrainTimeout, "drain-timeout", options.DrainTimeout, "mixed: longest time without progress before the rest is missing")
	flags.DurationVar(&options.CallTimeout, "timeout", options.CallTimeout, "longest push or ack")
	flags.IntSliceVar(&options.PIDs, "pid", nil, "server processes on this machine whose CPU and memory count")
	flags.StringVarP(&format, "output", "o", format, "table or json")
	return command
}

func printResult(around process, result bench.Result, format string) error {
	if format == "table" {
		return result.WriteTable(around.stdout)
	}
	line := struct {
		At string `json:"at"`
		bench.Result
	}{time.Now().UTC().Format(time.RFC3339), result}
	if err := json.NewEncoder(around.stdout).Encode(line); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}
