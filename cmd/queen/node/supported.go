package node

import (
	"errors"
	"fmt"

	"queen/cmd/queen/config"
)

// checkSupported refuses settings whose feature this build does not have. Ignoring them would be worse than not starting:
// three nodes that were told to be a cluster would be three brokers.
func checkSupported(c *config.Config) error {
	var problems []error
	refuse := func(asked bool, name, feature string) {
		if asked {
			problems = append(problems, fmt.Errorf("%s: this build does not support %s yet; unset it", name, feature))
		}
	}
	refuse(len(c.RaftPeers) > 0, "QUEEN_RAFT_PEERS", "clusters")
	refuse(c.RaftJoin, "QUEEN_RAFT_JOIN", "clusters")
	refuse(c.RaftForceRecover.NodeID != 0, "QUEEN_RAFT_FORCE_RECOVER", "forced recovery")
	refuse(len(c.RaftApplySkip) > 0, "QUEEN_RAFT_APPLY_SKIP", "skipping entries")
	refuse(c.RaftGroups > 1, "QUEEN_RAFT_GROUPS", "more than one group")
	refuse(len(c.TenantGroups) > 0, "QUEEN_TENANT_GROUPS", "more than one group")
	refuse(c.ProxyPort != 0, "QUEEN_PROXY_PORT", "the proxy port")
	refuse(c.BackupDirectory != "", "QUEEN_BACKUP_DIR", "scheduled backups")
	refuse(c.TestRefuseApplyKV != "", "QUEEN_TEST_REFUSE_APPLY_KV", "KV")
	return errors.Join(problems...)
}
