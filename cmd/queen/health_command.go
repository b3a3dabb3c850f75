package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/cmd/queen/config"
)

// healthTimeout is how long a health check may take (operations 9.2).
const healthTimeout = 2 * time.Second

// maxHealthBytes bounds the answer that is read; 64 groups need far less.
const maxHealthBytes = 1 << 20

// healthCommand is `queen health`: 0 for a ready node, 1 otherwise, as container health checks want it.
func healthCommand(around process) *cobra.Command {
	var address string
	command := &cobra.Command{
		Use:   "health",
		Short: "ask /health of this host; exits 0 when it is ready, 1 otherwise",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			target := healthTarget{address: address}
			if address == "" {
				cfg, err := loadSettings(command, around)
				if err != nil {
					return printFatal(around, err)
				}
				target = ownHealth(cfg)
			}
			return checkHealth(command.Context(), around, target)
		},
	}
	command.Flags().StringVar(&address, "url", "", "another node, such as http://queen-1:6632")
	settingFlags(command)
	return command
}

// healthTarget is the node that is asked.
type healthTarget struct {
	address string
	// anyCertificate is set for the node's own port: its certificate names the outside, not the loopback address.
	anyCertificate bool
}

// ownHealth finds the port of the node that runs with the same settings on this host.
func ownHealth(cfg config.Config) healthTarget {
	host, scheme := cfg.BindAddress, "http"
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	if cfg.TLSCertFile != "" {
		scheme = "https"
	}
	return healthTarget{address: scheme + "://" + net.JoinHostPort(host, strconv.Itoa(cfg.Port)), anyCertificate: true}
}

// checkHealth prints the status and the reasons, and fails with 1 for anything but 200.
func checkHealth(ctx context.Context, around process, target healthTarget) error {
	parsed, err := url.Parse(target.address)
	if err != nil || parsed.Host == "" {
		return fmt.Errorf("url %q: want something like http://127.0.0.1:6632", target.address)
	}
	if parsed.Path == "" || parsed.Path == "/" {
		parsed.Path = "/health"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, parsed.String(), nil)
	if err != nil {
		return fmt.Errorf("make request to %s: %w", parsed.Redacted(), err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: target.anyCertificate, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("ask health: %w", err)
	}
	defer response.Body.Close()
	var health struct {
		Status  string   `json:"status"`
		Reasons []string `json:"reasons"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxHealthBytes)).Decode(&health); err != nil {
		return fmt.Errorf("read health of %s (%s): %w", parsed.Redacted(), response.Status, err)
	}
	line := health.Status
	if len(health.Reasons) > 0 {
		line += ": " + strings.Join(health.Reasons, ", ")
	}
	fmt.Fprintln(around.stdout, line)
	if response.StatusCode != http.StatusOK {
		return &exitError{code: exitFatal}
	}
	return nil
}
