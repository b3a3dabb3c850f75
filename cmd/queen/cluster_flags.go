package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"queen/cmd/queen/admin"
)

// clusterFlags are the flags that all commands of `queen cluster` share (operations 9.1).
type clusterFlags struct {
	around process

	servers       []string
	token, apiKey string
	timeout       time.Duration
	insecure      bool
	format        string
	json          bool
	quiet         bool
	noHeaders     bool
	noColour      bool
	yes           bool
}

func (f *clusterFlags) register(command *cobra.Command) {
	flags := command.PersistentFlags()
	flags.StringSliceVar(&f.servers, "server", nil, "base URL of a node; several are tried in turn (QUEENCTL_SERVER, default http://127.0.0.1:$PORT)")
	flags.StringVar(&f.token, "token", "", "bearer token (QUEENCTL_TOKEN)")
	flags.StringVar(&f.apiKey, "api-key", "", "API key, in place of a token")
	flags.DurationVar(&f.timeout, "timeout", admin.DefaultTimeout, "how long a change may take, at most 2m")
	flags.BoolVar(&f.insecure, "insecure", false, "take any certificate")
	flags.StringVarP(&f.format, "output", "o", "table", "table, json or yaml")
	flags.BoolVar(&f.json, "json", false, "the same as -o json")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
	flags.BoolVar(&f.noHeaders, "no-headers", false, "tables without their first line")
	flags.BoolVar(&f.noColour, "no-color", false, "no colours on a terminal")
}

// registerYes gives a command that changes something its --yes.
func (f *clusterFlags) registerYes(command *cobra.Command) {
	command.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

// with runs an action with a client, ends it on SIGINT and SIGTERM, and gives its error the exit code.
func (f *clusterFlags) with(command *cobra.Command, action func(ctx context.Context, client *admin.Client) error) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return withExitCode(action(ctx, client))
}

// withExitCode tells the answers of a server from wrong use: a server that refuses, or does not answer, is code 2.
func withExitCode(err error) error {
	if _, decided := errors.AsType[*exitError](err); err == nil || decided {
		return err
	}
	code := exitServerRefused
	if refusal, refused := errors.AsType[*admin.Refusal](err); refused && refusal.Unauthorised() {
		code = exitNotAuthorised
	}
	return &exitError{code: code, cause: err}
}

// client makes the client that the flags and the environment ask for.
func (f *clusterFlags) client() (*admin.Client, error) {
	if f.json {
		f.format = "json"
	}
	if f.format != "table" && f.format != "json" && f.format != "yaml" {
		return nil, fmt.Errorf("output %q: want table, json or yaml", f.format)
	}
	if f.token != "" && f.apiKey != "" {
		return nil, errors.New("want --token or --api-key, not both")
	}
	bearer := f.token + f.apiKey // one of them at most
	if bearer == "" {
		bearer = f.around.variable("QUEENCTL_TOKEN")
	}
	return admin.New(admin.Options{Servers: f.chosenServers(), Bearer: bearer, AnyCertificate: f.insecure, Timeout: f.timeout})
}

func (f *clusterFlags) chosenServers() []string {
	if len(f.servers) > 0 {
		return f.servers
	}
	if given := f.around.variable("QUEENCTL_SERVER"); given != "" {
		return strings.Split(given, ",")
	}
	port := f.around.variable("PORT")
	if port == "" {
		port = "6632"
	}
	return []string{"http://" + net.JoinHostPort("127.0.0.1", port)}
}

// confirm says what is about to happen. Where somebody sits at the terminal it asks; anything but a yes ends the command.
func (f *clusterFlags) confirm(about string) error {
	asks := f.around.asks && !f.yes
	if asks || !f.quiet {
		fmt.Fprintln(f.around.stderr, "about to "+about)
	}
	if !asks {
		return nil
	}
	fmt.Fprint(f.around.stderr, "go on? [y/N] ")
	answer, err := bufio.NewReader(f.around.stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	return &exitError{code: exitFatal, cause: errors.Join(errors.New("not confirmed: nothing was changed"), err)}
}
