package config

// Config holds every setting of a node, named after its variable: QUEEN_RAFT_PEERS is RaftPeers. Units stand at the end of
// the names. A Config is made by Load, never changed afterwards, and safe to read from any goroutine.
type Config struct {
	// Process and HTTP (cluster 1.2).
	Port                    int
	BindAddress             string // a host, never with a port
	ServerID                string
	CellID                  string // empty: the first 8 characters of the cluster id, which only the store knows
	MaxBodyBytes            int64
	TLSCertFile             string
	TLSKeyFile              string
	LogLevel                string // debug, info, warn or error
	LogJSON                 bool
	PopDefaultTimeoutMs     Milliseconds
	DefaultTimeoutMs        Milliseconds // 0 is unset; PopWaitMs applies the precedence
	StatementTimeoutMs      Milliseconds // QUEEN_STMT_TIMEOUT_MS
	DefaultSubscriptionMode string       // new or all
	ShutdownDrainMs         Milliseconds

	// Identity and membership (cluster 1.3).
	RaftReplicator       string
	RaftNodeID           uint32
	RaftPeers            []Peer
	RaftListen           string // empty: no raft port is opened
	RaftToken            string
	RaftTokenPrevious    string
	RaftTLSCertFile      string
	RaftTLSKeyFile       string
	RaftTLSCAFile        string
	RaftDirectory        string
	RaftJoin             bool
	RaftAutoRejoin       bool
	RaftForceRecover     ForceRecover
	RaftApplySkip        []ApplySkip
	RaftPromoteMaxLag    int64 // entries
	RaftClusterVersionMs Milliseconds

	// Raft timing, log, health and admission (cluster 1.4 to 1.6).
	RaftElectionMs             Milliseconds
	RaftHeartbeatMs            Milliseconds
	RaftPurgeHoldSeconds       Seconds
	RaftLogKeep                int64 // entries
	RaftLogCacheMB             int64
	RaftForwardStreams         int // QUEEN_RAFT_FWD_STREAMS
	RaftNoQuorumFailMs         Milliseconds
	RaftIdleTickMs             Milliseconds
	RaftDurableEveryMs         Milliseconds
	RaftDurableBytes           int64
	RaftReadyLagMs             Milliseconds
	RaftReadyLagEntries        int64
	RaftReadyQuorumMs          Milliseconds
	RaftDiskHighPercent        int
	RaftDiskLowPercent         int
	RaftPipeline               int // entries
	RaftBatchMaxCommands       int
	RaftBatchMaxBytes          int64
	RaftEntryMaxBytes          int64
	RaftCommandQueueDepth      int // commands
	RaftRequestIDWindowSeconds Seconds
	RaftTxnWindowMinSeconds    Seconds
	RaftSlowCommandMs          Milliseconds
	RaftAdmitMaxMB             int64 // 0 switches admission off; AdmitMaxBytes converts
	RaftAdmitHoldMs            Milliseconds
	RaftAdmitForwardHoldMs     Milliseconds // QUEEN_RAFT_ADMIT_FWD_HOLD_MS

	// Consumption and clocks (cluster 1.7).
	ConsumeCheckpointMs      Milliseconds
	ConsumeRowsPerCommand    int
	ConsumeLeaderLeaseMs     Milliseconds
	ConsumeIdleUnloadSeconds Seconds
	RaftMaxClockSkewMs       Milliseconds
	RaftPopReplyMarginMs     Milliseconds

	// Store, retention, background work (cluster 1.8).
	StoreCacheMB              int64 // read, and without effect
	StoreScrubEverySeconds    Seconds
	StoreScrubRowsPerSecond   int64
	RetentionIntervalMs       Milliseconds
	RetentionBatchSize        int // removals per partition and pass
	RetentionVisit            int // partitions per pass
	RetentionScanPerSecond    int64
	PartitionCleanupEnabled   bool
	PartitionCleanupDays      int
	RaftTraceRetentionSeconds Seconds

	// KV, timers, locks (cluster 1.9).
	KVRequireGrant            bool
	KVMaxValueBytes           int64
	KVMaxReadBytes            int64
	KVMaxOpsPerCall           int
	KVMaxKeysPerCall          int
	KVMaxTenants              int
	KVReadRate                int64 // calls per second
	KVReadBurst               int64
	KVWriteRate               int64 // calls per second
	KVWriteBurst              int64
	KVSweepMs                 Milliseconds
	KVSweepLimit              int // rows
	TimersMaxHorizonSeconds   Seconds
	TimersMaxOpsPerCall       int
	TimersMaxPayloadBytes     int64
	TimerTickMs               Milliseconds // 0: timers never fire
	TimerFireBatch            int
	TimerFireMaxBytes         int64
	SweeperBackoffMinMs       Milliseconds
	SweeperBackoffMaxMs       Milliseconds
	SweeperTransientBackoffMs Milliseconds
	SweeperMaxAttempts        int

	// Ephemeral queues (cluster 1.10).
	EphemeralMemberTTLMs         Milliseconds
	EphemeralMaxBytes            int64
	EphemeralQueueMaxBytes       int64
	EphemeralQueueMaxLength      int64 // messages
	EphemeralLeaseSeconds        Seconds
	EphemeralRetryLimit          int
	EphemeralImplicitIdleSeconds Seconds
	EphemeralRate                int64 // messages per second and tenant
	EphemeralBurst               int64
	EphemeralRequireGrant        bool

	// Encryption and broker JWT (cluster 1.11).
	EncryptionKey         *EncryptionKey // nil: this node encrypts nothing
	EncryptionKeysOld     []EncryptionKey
	JWTEnabled            bool
	JWTAlgorithm          string
	JWTSecret             string
	JWTPublicKey          string
	JWTJWKSURL            string
	JWTJWKSRefreshSeconds Seconds
	JWTJWKSTimeoutMs      Milliseconds
	JWTIssuer             string
	JWTAudience           string
	JWTClockSkewSeconds   Seconds
	JWTRequireExpiry      bool
	JWTRolesClaim         string
	JWTRolesArrayClaim    string
	JWTRoleAdmin          string
	JWTRoleReadWrite      string
	JWTRoleReadOnly       string
	JWTRoleWriteOnly      string
	JWTSkipPaths          []string

	// Tenancy, groups, proxy port (cluster 1.12).
	TenancyHeader          bool
	KVTrustedProxy         bool
	RaftGroups             int
	TenantGroups           map[string]int // tenant UUID in lower case to group
	RaftClientOffload      bool
	ProxyPort              int // 0: no proxy listener
	ProxyEnforce           bool
	ProxyControlPlaneToken string // QUEEN_PROXY_CP_TOKEN
	ProxyBootstrapTenant   string
	ProxyBootstrapAPIKey   string
	ProxyMaxBodyBytes      int64
	ProxyMaxBatchItems     int
	ProxyLongPollMaxMs     Milliseconds
	ProxyCellMaxParked     int

	// Metrics, dashboard, backups, test switches (cluster 1.13).
	MetricsFlushMs            Milliseconds
	MetricsTenantLabel        bool
	MetricsGroupLagMaxCursors int64
	DashboardNodeHours        int // QUEEN_DASH_NODE_RETENTION_H
	DashboardQueueHours       int // QUEEN_DASH_QUEUE_RETENTION_H
	DashboardMaxQueueRows     int64
	DashboardSizesMax         int // partitions
	BackupDirectory           string
	BackupEverySeconds        Seconds
	BackupKeep                int // archives
	TestRefuseApplyKV         string
	TestFaults                []TestFault

	settings []Setting
	warnings []string
}

// PopWaitMs is the wait of a pop that names none: DEFAULT_TIMEOUT when it is set, else POP_DEFAULT_TIMEOUT_MS.
func (c *Config) PopWaitMs() Milliseconds {
	if c.DefaultTimeoutMs > 0 {
		return c.DefaultTimeoutMs
	}
	return c.PopDefaultTimeoutMs
}

// AdmitMaxBytes is the budget of admitted, unanswered writes in bytes; 0 means that admission is off (cluster 11.1).
func (c *Config) AdmitMaxBytes() int64 { return c.RaftAdmitMaxMB * bytesPerMegabyte }

// Self returns this node's own row of the peer list. The second result is false for a node without QUEEN_RAFT_PEERS.
func (c *Config) Self() (Peer, bool) {
	for _, peer := range c.RaftPeers {
		if peer.ID == int64(c.RaftNodeID) {
			return peer, true
		}
	}
	return Peer{}, false
}

// oneVoter tells whether this node stays the only voter, which allows shorter raft times (cluster 1.4). A node that lists itself
// has a raft port: it may grow to a cluster, or join one, and then needs the times of a cluster (cluster 4.5).
func (c *Config) oneVoter() bool { return len(c.RaftPeers) == 0 }
