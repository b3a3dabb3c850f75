package config

import (
	"strconv"
)

// table lists every variable in the order of cluster 1.2 to 1.13 and binds it to its field in c. A computed default stands
// after everything it depends on.
func table(c *Config, host Host) []variable {
	var rows []variable
	for _, section := range [][]variable{
		processRows(c, host), identityRows(c, host), raftRows(c), admissionRows(c), consumeRows(c), storeRows(c),
		stateRows(c), ephemeralRows(c), securityRows(c), tenancyRows(c), observationRows(c),
	} {
		rows = append(rows, section...)
	}
	return rows
}

const (
	allowedFile      = "a file path"
	allowedDirectory = "a directory"
	allowedText      = "any text"
)

func processRows(c *Config, host Host) []variable {
	return []variable{
		number("PORT", &c.Port, 6632, between(1, highestPort)),
		derivedText("QUEEN_BIND_ADDR", &c.BindAddress, "a host without a port", fixed("0.0.0.0"), isHost),
		derivedText("QUEEN_SERVER_ID", &c.ServerID, allowedName, host.serverID, isName),
		derivedText("QUEEN_CELL_ID", &c.CellID, allowedName, fixed(""), isName),
		number("QUEEN_MAX_BODY_BYTES", &c.MaxBodyBytes, 67108864, between(1024, 1073741824)),
		text("QUEEN_TLS_CERT", &c.TLSCertFile, "", allowedFile),
		text("QUEEN_TLS_KEY", &c.TLSKeyFile, "", allowedFile),
		choice("LOG_LEVEL", &c.LogLevel, "info", "debug", "info", "warn", "error"),
		boolean("QUEEN_LOG_JSON", &c.LogJSON, false),
		number("POP_DEFAULT_TIMEOUT_MS", &c.PopDefaultTimeoutMs, 30000, between(1, 60000)),
		derivedNumber("DEFAULT_TIMEOUT", &c.DefaultTimeoutMs, between(1, 60000), fixed("")),
		number("QUEEN_STMT_TIMEOUT_MS", &c.StatementTimeoutMs, 30000, between(1, 60000)),
		choice("DEFAULT_SUBSCRIPTION_MODE", &c.DefaultSubscriptionMode, "new", "new", "all"),
		number("QUEEN_SHUTDOWN_DRAIN_MS", &c.ShutdownDrainMs, 30000, between(0, 300000)),
	}
}

func identityRows(c *Config, host Host) []variable {
	nodeID := variable{name: "QUEEN_RAFT_NODE_ID", allowed: allowedNodeID, standard: fixed("1"), parse: func(text string) (string, error) {
		id, err := parseNodeID(text, host.Hostname)
		c.RaftNodeID = id
		return strconv.FormatUint(uint64(id), 10), err
	}}
	return []variable{
		choice("QUEEN_RAFT_REPLICATOR", &c.RaftReplicator, "", "local", "raft", "openraft"),
		nodeID,
		parsed("QUEEN_RAFT_PEERS", &c.RaftPeers, allowedPeers, parsePeers),
		derivedText("QUEEN_RAFT_LISTEN", &c.RaftListen, "host:port", func() string { return ownRaftListen(c) }, isListen),
		masked(text("QUEEN_RAFT_TOKEN", &c.RaftToken, "", allowedText)),
		masked(text("QUEEN_RAFT_TOKEN_PREVIOUS", &c.RaftTokenPrevious, "", allowedText)),
		text("QUEEN_RAFT_TLS_CERT", &c.RaftTLSCertFile, "", allowedFile),
		text("QUEEN_RAFT_TLS_KEY", &c.RaftTLSKeyFile, "", allowedFile),
		text("QUEEN_RAFT_TLS_CA", &c.RaftTLSCAFile, "", allowedFile),
		derivedText("QUEEN_RAFT_DIR", &c.RaftDirectory, allowedDirectory, host.directory, nil),
		boolean("QUEEN_RAFT_JOIN", &c.RaftJoin, false),
		boolean("QUEEN_RAFT_AUTO_REJOIN", &c.RaftAutoRejoin, true),
		parsed("QUEEN_RAFT_FORCE_RECOVER", &c.RaftForceRecover, allowedForceRecover, parseForceRecover),
		parsed("QUEEN_RAFT_APPLY_SKIP", &c.RaftApplySkip, allowedApplySkip, parseApplySkip),
		number("QUEEN_RAFT_PROMOTE_MAX_LAG", &c.RaftPromoteMaxLag, 1000, between(0, 10000000)),
		number("QUEEN_RAFT_CLUSTER_VERSION_MS", &c.RaftClusterVersionMs, 1000, zeroOrBetween(100, 60000)),
	}
}

func raftRows(c *Config) []variable {
	return []variable{
		derivedNumber("QUEEN_RAFT_ELECTION_MS", &c.RaftElectionMs, between(50, 30000), byVoters(c, "150", "500")),
		derivedNumber("QUEEN_RAFT_HEARTBEAT_MS", &c.RaftHeartbeatMs, between(10, 5000), byVoters(c, "50", "100")),
		number("QUEEN_RAFT_PURGE_HOLD_S", &c.RaftPurgeHoldSeconds, 600, between(0, 604800)),
		number("QUEEN_RAFT_LOG_KEEP", &c.RaftLogKeep, 4096, between(16, 10000000)),
		number("QUEEN_RAFT_LOG_CACHE_MB", &c.RaftLogCacheMB, 512, between(1, 65536)),
		number("QUEEN_RAFT_FWD_STREAMS", &c.RaftForwardStreams, 4, between(1, 64)),
		number("QUEEN_RAFT_NO_QUORUM_FAIL_MS", &c.RaftNoQuorumFailMs, 0, zeroOrBetween(500, 60000)),
		number("QUEEN_RAFT_IDLE_TICK_MS", &c.RaftIdleTickMs, 10000, zeroOrBetween(1000, 600000)),
		number("QUEEN_RAFT_DURABLE_EVERY_MS", &c.RaftDurableEveryMs, 1000, between(10, 60000)),
		number("QUEEN_RAFT_DURABLE_BYTES", &c.RaftDurableBytes, 268435456, between(1048576, 17179869184)),
		number("QUEEN_RAFT_READY_LAG_MS", &c.RaftReadyLagMs, 2000, between(0, 600000)),
		number("QUEEN_RAFT_READY_LAG_ENTRIES", &c.RaftReadyLagEntries, 1000, between(0, 10000000)),
		number("QUEEN_RAFT_READY_QUORUM_MS", &c.RaftReadyQuorumMs, 5000, zeroOrBetween(500, 600000)),
		number("QUEEN_RAFT_DISK_HIGH_PCT", &c.RaftDiskHighPercent, 85, between(1, 99)),
		number("QUEEN_RAFT_DISK_LOW_PCT", &c.RaftDiskLowPercent, 80, between(1, 98)),
	}
}

func admissionRows(c *Config) []variable {
	return []variable{
		number("QUEEN_RAFT_PIPELINE", &c.RaftPipeline, 4, between(1, 1024)),
		number("QUEEN_RAFT_BATCH_MAX_CMDS", &c.RaftBatchMaxCommands, 4096, between(1, 65536)),
		number("QUEEN_RAFT_BATCH_MAX_BYTES", &c.RaftBatchMaxBytes, 262144, between(4096, 33554432)),
		number("QUEEN_RAFT_ENTRY_MAX_BYTES", &c.RaftEntryMaxBytes, 50331648, between(1048576, 62914560)),
		number("QUEEN_RAFT_COMMAND_QUEUE_DEPTH", &c.RaftCommandQueueDepth, 16384, between(64, 1048576)),
		number("QUEEN_RAFT_REQUEST_ID_WINDOW_S", &c.RaftRequestIDWindowSeconds, 60, between(60, 3600)),
		number("QUEEN_RAFT_TXN_WINDOW_MIN_S", &c.RaftTxnWindowMinSeconds, 900, between(0, 604800)),
		number("QUEEN_RAFT_SLOW_COMMAND_MS", &c.RaftSlowCommandMs, 50, between(1, 60000)),
		derivedNumber("QUEEN_RAFT_ADMIT_MAX_MB", &c.RaftAdmitMaxMB, between(0, 65536), func() string { return standardAdmitMB(c) }),
		number("QUEEN_RAFT_ADMIT_HOLD_MS", &c.RaftAdmitHoldMs, 15000, between(0, 60000)),
		number("QUEEN_RAFT_ADMIT_FWD_HOLD_MS", &c.RaftAdmitForwardHoldMs, 2000, between(0, 60000)),
	}
}

func consumeRows(c *Config) []variable {
	return []variable{
		number("QUEEN_CONSUME_CHECKPOINT_MS", &c.ConsumeCheckpointMs, 0, between(0, 100)),
		number("QUEEN_CONSUME_ROWS_PER_COMMAND", &c.ConsumeRowsPerCommand, 4096, between(1, 65536)),
		derivedNumber("QUEEN_CONSUME_LEADER_LEASE_MS", &c.ConsumeLeaderLeaseMs, between(10, 24000), func() string { return standardLeaderLeaseMs(c) }),
		number("QUEEN_CONSUME_IDLE_UNLOAD_S", &c.ConsumeIdleUnloadSeconds, 600, between(0, 86400)),
		number("QUEEN_RAFT_MAX_CLOCK_SKEW_MS", &c.RaftMaxClockSkewMs, 500, between(0, 60000)),
		number("QUEEN_RAFT_POP_REPLY_MARGIN_MS", &c.RaftPopReplyMarginMs, 50, between(0, 5000)),
	}
}

func storeRows(c *Config) []variable {
	return []variable{
		number("QUEEN_STORE_CACHE_MB", &c.StoreCacheMB, 512, between(16, 1048576)),
		number("QUEEN_STORE_SCRUB_EVERY_S", &c.StoreScrubEverySeconds, 21600, zeroOrBetween(60, 2592000)),
		number("QUEEN_STORE_SCRUB_ROWS_PER_S", &c.StoreScrubRowsPerSecond, 2000, between(1, 10000000)),
		number("RETENTION_INTERVAL", &c.RetentionIntervalMs, 5000, between(100, maxHourMs)),
		number("RETENTION_BATCH_SIZE", &c.RetentionBatchSize, 1000, between(1, 1000000)),
		number("QUEEN_RAFT_RETENTION_VISIT", &c.RetentionVisit, 8192, between(1, 10000000)),
		number("QUEEN_RAFT_RETENTION_SCAN_PER_S", &c.RetentionScanPerSecond, 50000, between(1, 100000000)),
		boolean("QUEEN_PARTITION_CLEANUP_ENABLED", &c.PartitionCleanupEnabled, true),
		number("PARTITION_CLEANUP_DAYS", &c.PartitionCleanupDays, 30, between(1, 3650)),
		number("QUEEN_RAFT_TRACE_RETENTION_S", &c.RaftTraceRetentionSeconds, 604800, between(60, 31536000)),
	}
}

// maxHourMs is the longest interval of periodic work, in milliseconds.
const maxHourMs = 3_600_000

func byVoters(c *Config, one, several string) func() string {
	return func() string {
		if c.oneVoter() {
			return one
		}
		return several
	}
}

// standardAdmitMB is the larger of 128 MiB and (pipeline + 2) batches, in whole MiB, rounded up (cluster 1.6).
func standardAdmitMB(c *Config) string {
	const leastBytes = 128 * bytesPerMegabyte
	bytes := max(leastBytes, int64(c.RaftPipeline+2)*c.RaftBatchMaxBytes)
	return strconv.FormatInt((bytes+bytesPerMegabyte-1)/bytesPerMegabyte, 10)
}

// standardLeaderLeaseMs is min(400, 4/5 of the election time) (cluster 1.7).
func standardLeaderLeaseMs(c *Config) string {
	return strconv.FormatInt(min(400, int64(c.RaftElectionMs)*4/5), 10)
}
