package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Setting is one row of `config show` and of GET /api/v1/system/config. Secrets are masked in it.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Source  Source `json:"source"`
	Default string `json:"default"`
	Allowed string `json:"allowed"`
}

// Settings lists every variable with its effective value (cluster 1.1.8).
func (c *Config) Settings() []Setting { return slices.Clone(c.settings) }

// BootLines returns the lines that every boot logs at INFO, `config: NAME=value` (cluster 1.1.7).
func (c *Config) BootLines() []string {
	lines := make([]string, len(c.settings))
	for i, setting := range c.settings {
		lines[i] = "config: " + setting.Name + "=" + setting.Value
	}
	return lines
}

// DirectoryLine says which data directory is used and why; boot logs it at INFO (cluster 1.3).
func (c *Config) DirectoryLine() string {
	reason := "QUEEN_RAFT_DIR is set"
	if c.sourceOf("QUEEN_RAFT_DIR") == SourceDefault {
		reason = "QUEEN_RAFT_DIR is not set and " + PackagedDirectory + " is writable"
		if c.RaftDirectory == LocalDirectory {
			reason = "QUEEN_RAFT_DIR is not set and " + PackagedDirectory + " is not writable"
		}
	}
	return fmt.Sprintf("data directory %s (%s)", c.RaftDirectory, reason)
}

// Warnings returns the lines that every boot logs at WARN: unknown variables, test switches, weak or idle settings.
func (c *Config) Warnings() []string { return slices.Clone(c.warnings) }

// Shared returns the settings that change results, by variable name: they travel in the handshake, so that nodes notice a
// difference (cluster 1.1.10).
func (c *Config) Shared() map[string]string {
	shared := map[string]string{}
	for _, name := range []string{
		"QUEEN_RAFT_GROUPS", "QUEEN_RAFT_REQUEST_ID_WINDOW_S", "QUEEN_RAFT_TXN_WINDOW_MIN_S", "QUEEN_RAFT_MAX_CLOCK_SKEW_MS",
		"QUEEN_TENANT_GROUPS", "QUEEN_RAFT_ENTRY_MAX_BYTES", "QUEEN_KV_MAX_VALUE_BYTES", "QUEEN_KV_MAX_READ_BYTES",
	} {
		shared[name] = c.shown(name)
	}
	return shared
}

func (c *Config) sourceOf(name string) Source { return c.setting(name).Source }

func (c *Config) shown(name string) string { return c.setting(name).Value }

func (c *Config) setting(name string) Setting {
	for _, setting := range c.settings {
		if setting.Name == name {
			return setting
		}
	}
	return Setting{Name: name}
}

// maskedHexBytes is how much of a secret's SHA-256 is shown: enough to compare two nodes, useless for guessing a long secret.
const maskedHexBytes = 8

// mask hides a secret (cluster 1.1.7). An empty secret is shown as what it is: not set.
func mask(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return "***" + hex.EncodeToString(sum[:])[:maskedHexBytes]
}

// minTokenBytes is the shortest raft token that boots without a warning (cluster 1.3).
const minTokenBytes = 16

// oddities finds settings that are allowed and deserve a WARN.
func (c *Config) oddities() []string {
	var lines []string
	for _, setting := range c.settings {
		if strings.HasPrefix(setting.Name, "QUEEN_TEST_") && setting.Source != SourceDefault {
			lines = append(lines, "config: "+setting.Name+" is set: this node is made for tests")
		}
	}
	if c.RaftToken != "" && len(c.RaftToken) < minTokenBytes {
		lines = append(lines, fmt.Sprintf("config: QUEEN_RAFT_TOKEN is shorter than %d characters", minTokenBytes))
	}
	if c.RaftTokenPrevious != "" && len(c.RaftTokenPrevious) < minTokenBytes {
		lines = append(lines, fmt.Sprintf("config: QUEEN_RAFT_TOKEN_PREVIOUS is shorter than %d characters", minTokenBytes))
	}
	if !c.RaftClientOffload {
		lines = append(lines, "config: QUEEN_RAFT_CLIENT_OFFLOAD=false changes nothing: followers always prepare their clients' commands")
	}
	if c.setting("QUEEN_STORE_CACHE_MB").Source != SourceDefault {
		lines = append(lines, "config: QUEEN_STORE_CACHE_MB changes nothing: the store reads from the page cache of the system")
	}
	return lines
}
