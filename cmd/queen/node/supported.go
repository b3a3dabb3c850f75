package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"queen/cmd/queen/config"
)

// checkSupported refuses settings whose feature this build does not have. Ignoring them would be worse than not starting:
// whoever asked for backups would find none when they are needed.
func checkSupported(c *config.Config) error {
	var problems []error
	refuse := func(asked bool, name, feature string) {
		if asked {
			problems = append(problems, fmt.Errorf("%s: this build does not support %s yet; unset it", name, feature))
		}
	}
	refuse(c.RaftForceRecover.NodeID != 0, "QUEEN_RAFT_FORCE_RECOVER", "forced recovery")
	refuse(len(c.RaftApplySkip) > 0, "QUEEN_RAFT_APPLY_SKIP", "skipping entries")
	refuse(c.RaftGroups > 1, "QUEEN_RAFT_GROUPS", "more than one group")
	refuse(len(c.TenantGroups) > 0, "QUEEN_TENANT_GROUPS", "more than one group")
	refuse(c.ProxyPort != 0, "QUEEN_PROXY_PORT", "the proxy port")
	refuse(c.BackupDirectory != "", "QUEEN_BACKUP_DIR", "scheduled backups")
	return errors.Join(problems...)
}

// idleFamilies and idleSettings are what this build reads, checks and has no use for: their features are not there, or need a
// second node. A node without them is as good, so they do not stop the start.
var (
	idleFamilies = []string{"QUEEN_BACKUP_", "QUEEN_EPHEMERAL_", "QUEEN_PROXY_", "QUEEN_STORE_SCRUB_"}
	idleSettings = []string{"QUEEN_KV_REQUIRE_GRANT", "QUEEN_KV_MAX_TENANTS", "QUEEN_KV_READ_RATE", "QUEEN_KV_READ_BURST",
		"QUEEN_KV_WRITE_RATE", "QUEEN_KV_WRITE_BURST", "QUEEN_CELL_ID", "QUEEN_CONSUME_CHECKPOINT_MS",
		"QUEEN_CONSUME_ROWS_PER_COMMAND", "QUEEN_RAFT_CLIENT_OFFLOAD",
		"QUEEN_RAFT_RETENTION_SCAN_PER_S"}
)

// withoutEffect lists the settings that somebody has set and this build does not use.
func withoutEffect(c *config.Config) []string {
	var names []string
	for _, setting := range c.Settings() {
		if setting.Source != config.SourceDefault && isIdle(setting.Name) {
			names = append(names, setting.Name)
		}
	}
	return names
}

func isIdle(name string) bool {
	return slices.Contains(idleSettings, name) ||
		slices.ContainsFunc(idleFamilies, func(family string) bool { return strings.HasPrefix(name, family) })
}
