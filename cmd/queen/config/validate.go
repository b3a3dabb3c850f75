package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxVoters is the largest peer list (cluster 1.1).
const maxVoters = 5

// Validate applies every rule that joins two settings, or two rows of one (cluster 1.1, cross-checks). It is pure and
// returns nil when everything fits. Load calls it; a caller that builds a Config by hand may call it again.
func (c *Config) Validate() Problems {
	var problems Problems
	refuse := func(name, value, want string) {
		problems = append(problems, Problem{Variable: name, Value: value, Want: want})
	}
	c.validatePeers(refuse)
	c.validateTiming(refuse)
	c.validatePairs(refuse)
	c.validateKeys(refuse)
	if c.TenancyHeader && !c.KVTrustedProxy {
		refuse("QUEEN_TENANCY_HEADER", "true", "QUEEN_KV_TRUSTED_PROXY=true beside it, which confirms that only a trusted proxy reaches PORT")
	}
	if c.JWTEnabled && c.JWTSecret == "" && c.JWTPublicKey == "" && c.JWTJWKSURL == "" {
		refuse("JWT_ENABLED", "true", "JWT_SECRET, JWT_PUBLIC_KEY or JWT_JWKS_URL beside it")
	}
	for _, tenant := range slices.Sorted(maps.Keys(c.TenantGroups)) {
		if c.TenantGroups[tenant] >= c.RaftGroups {
			refuse("QUEEN_TENANT_GROUPS", fmt.Sprintf("%s=%d", tenant, c.TenantGroups[tenant]),
				fmt.Sprintf("a group below QUEEN_RAFT_GROUPS=%d", c.RaftGroups))
		}
	}
	if rescue := c.RaftForceRecover; rescue.NodeID != 0 && rescue.NodeID != c.RaftNodeID {
		refuse("QUEEN_RAFT_FORCE_RECOVER", strconv.FormatUint(uint64(rescue.NodeID), 10),
			fmt.Sprintf("this node's QUEEN_RAFT_NODE_ID=%d: it names the ONE surviving node", c.RaftNodeID))
	}
	return problems
}

func (c *Config) validatePeers(refuse func(name, value, want string)) {
	if len(c.RaftPeers) == 0 {
		return
	}
	rows := make([]string, len(c.RaftPeers))
	for i, peer := range c.RaftPeers {
		rows[i] = peer.String()
	}
	refusePeers := func(want string) { refuse("QUEEN_RAFT_PEERS", strings.Join(rows, ","), want) }

	if c.RaftReplicator == "local" {
		refuse("QUEEN_RAFT_REPLICATOR", c.RaftReplicator, "raft, or QUEEN_RAFT_PEERS not set")
	}
	if len(c.RaftPeers) > maxVoters {
		refusePeers(fmt.Sprintf("at most %d voters", maxVoters))
	}
	ids, addresses := map[int64]bool{}, map[string]bool{}
	open := false
	for _, peer := range c.RaftPeers {
		if peer.ID < 1 || peer.ID > highestNodeID {
			refusePeers(fmt.Sprintf("ids from 1 to %d, not %d", int64(highestNodeID), peer.ID))
		}
		if ids[peer.ID] {
			refusePeers(fmt.Sprintf("every id once, not %d again", peer.ID))
		}
		ids[peer.ID] = true
		for _, address := range []string{peer.RaftAddress, peer.HTTPAddress} {
			if address == "" {
				refusePeers(fmt.Sprintf("a raft and an http address for node %d", peer.ID))
			} else if addresses[address] {
				refusePeers(fmt.Sprintf("every address once, not %s again", address))
			}
			addresses[address] = true
		}
		open = open || !isLoopback(peer.RaftAddress)
	}
	if _, found := c.Self(); !found {
		refusePeers(fmt.Sprintf("this node's own id QUEEN_RAFT_NODE_ID=%d among them", c.RaftNodeID))
	}
	if open && c.RaftToken == "" && c.RaftTLSCAFile == "" {
		refuse("QUEEN_RAFT_TOKEN", "", "a token, or QUEEN_RAFT_TLS_CA, because QUEEN_RAFT_PEERS names an address that is not loopback")
	}
}

func (c *Config) validateTiming(refuse func(name, value, want string)) {
	if c.RaftDiskLowPercent >= c.RaftDiskHighPercent {
		refuse("QUEEN_RAFT_DISK_LOW_PCT", strconv.Itoa(c.RaftDiskLowPercent),
			fmt.Sprintf("less than QUEEN_RAFT_DISK_HIGH_PCT=%d", c.RaftDiskHighPercent))
	}
	if c.RaftHeartbeatMs*3 > c.RaftElectionMs {
		refuse("QUEEN_RAFT_HEARTBEAT_MS", strconv.FormatInt(int64(c.RaftHeartbeatMs), 10),
			fmt.Sprintf("at most a third of QUEEN_RAFT_ELECTION_MS=%d", c.RaftElectionMs))
	}
	if c.ConsumeLeaderLeaseMs*5 > c.RaftElectionMs*4 {
		refuse("QUEEN_CONSUME_LEADER_LEASE_MS", strconv.FormatInt(int64(c.ConsumeLeaderLeaseMs), 10),
			fmt.Sprintf("at most four fifths of QUEEN_RAFT_ELECTION_MS=%d", c.RaftElectionMs))
	}
	if c.RaftEntryMaxBytes < c.RaftBatchMaxBytes {
		refuse("QUEEN_RAFT_ENTRY_MAX_BYTES", strconv.FormatInt(c.RaftEntryMaxBytes, 10),
			fmt.Sprintf("at least QUEEN_RAFT_BATCH_MAX_BYTES=%d", c.RaftBatchMaxBytes))
	}
}

func (c *Config) validatePairs(refuse func(name, value, want string)) {
	for _, pair := range []struct{ certificateName, certificate, keyName, key string }{
		{"QUEEN_TLS_CERT", c.TLSCertFile, "QUEEN_TLS_KEY", c.TLSKeyFile},
		{"QUEEN_RAFT_TLS_CERT", c.RaftTLSCertFile, "QUEEN_RAFT_TLS_KEY", c.RaftTLSKeyFile},
	} {
		if pair.certificate != "" && pair.key == "" {
			refuse(pair.keyName, "", "a file path, because "+pair.certificateName+" is set")
		}
		if pair.certificate == "" && pair.key != "" {
			refuse(pair.certificateName, "", "a file path, because "+pair.keyName+" is set")
		}
	}
	// Mutual TLS without an own certificate would leave the raft port in clear: every peer would be refused, or none.
	if c.RaftTLSCAFile != "" && c.RaftTLSCertFile == "" && c.RaftTLSKeyFile == "" {
		refuse("QUEEN_RAFT_TLS_CERT", "", "a file path, because QUEEN_RAFT_TLS_CA is set")
	}
}

// validateKeys refuses two keys under one id: a stored record names its key by id only. The values stay masked.
func (c *Config) validateKeys(refuse func(name, value, want string)) {
	keys := map[string]EncryptionKey{}
	if c.EncryptionKey != nil {
		keys[c.EncryptionKey.ID] = *c.EncryptionKey
	}
	for _, key := range c.EncryptionKeysOld {
		if other, found := keys[key.ID]; found && other != key {
			refuse("QUEEN_ENCRYPTION_KEYS_OLD", c.shown("QUEEN_ENCRYPTION_KEYS_OLD"), "another id for one of the two keys called "+key.ID)
		}
		keys[key.ID] = key
	}
}
