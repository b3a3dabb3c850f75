package config

import "strconv"

func stateRows(c *Config) []variable {
	anyRate := between(1, 10000000)
	backoff := between(1, maxHourMs)
	return []variable{
		// The two grants follow QUEEN_TENANCY_HEADER, which is read by then when it is set at all.
		derivedBoolean("QUEEN_KV_REQUIRE_GRANT", &c.KVRequireGrant, tenancyWord(c)),
		number("QUEEN_KV_MAX_VALUE_BYTES", &c.KVMaxValueBytes, 65536, between(1, 16777216)),
		number("QUEEN_KV_MAX_READ_BYTES", &c.KVMaxReadBytes, 4194304, between(65536, 268435456)),
		number("QUEEN_KV_MAX_OPS_PER_CALL", &c.KVMaxOpsPerCall, 256, between(1, 4096)),
		number("QUEEN_KV_MAX_KEYS_PER_CALL", &c.KVMaxKeysPerCall, 1024, between(1, 4096)),
		number("QUEEN_KV_MAX_TENANTS", &c.KVMaxTenants, 10000, between(1, 10000000)),
		number("QUEEN_KV_READ_RATE", &c.KVReadRate, 200, anyRate),
		number("QUEEN_KV_READ_BURST", &c.KVReadBurst, 400, anyRate),
		number("QUEEN_KV_WRITE_RATE", &c.KVWriteRate, 100, anyRate),
		number("QUEEN_KV_WRITE_BURST", &c.KVWriteBurst, 200, anyRate),
		number("QUEEN_RAFT_KV_SWEEP_MS", &c.KVSweepMs, 1000, between(10, maxHourMs)),
		number("QUEEN_RAFT_KV_SWEEP_LIMIT", &c.KVSweepLimit, 512, between(1, 1000000)),
		number("QUEEN_TIMERS_MAX_HORIZON_S", &c.TimersMaxHorizonSeconds, 7776000, between(1, 315360000)),
		number("QUEEN_TIMERS_MAX_OPS_PER_CALL", &c.TimersMaxOpsPerCall, 256, between(1, 4096)),
		number("QUEEN_TIMERS_MAX_PAYLOAD_BYTES", &c.TimersMaxPayloadBytes, 1048576, between(1, 67108864)),
		number("QUEEN_RAFT_TIMER_TICK_MS", &c.TimerTickMs, 50, zeroOrBetween(5, 60000)),
		number("QUEEN_RAFT_TIMER_FIRE_BATCH", &c.TimerFireBatch, 256, between(1, 65536)),
		number("QUEEN_RAFT_TIMER_FIRE_MAX_BYTES", &c.TimerFireMaxBytes, 4194304, between(4096, 67108864)),
		number("QUEEN_SWEEPER_BACKOFF_MIN_MS", &c.SweeperBackoffMinMs, 1000, backoff),
		number("QUEEN_SWEEPER_BACKOFF_MAX_MS", &c.SweeperBackoffMaxMs, 60000, backoff),
		number("QUEEN_SWEEPER_TRANSIENT_BACKOFF_MS", &c.SweeperTransientBackoffMs, 1000, backoff),
		number("QUEEN_SWEEPER_MAX_ATTEMPTS", &c.SweeperMaxAttempts, 5, between(1, 1000)),
	}
}

func tenancyWord(c *Config) func() string {
	return func() string { return strconv.FormatBool(c.TenancyHeader) }
}

func ephemeralRows(c *Config) []variable {
	anyRate := between(1, 100000000)
	return []variable{
		number("QUEEN_EPHEMERAL_MEMBER_TTL_MS", &c.EphemeralMemberTTLMs, 4000, between(200, 600000)),
		number("QUEEN_EPHEMERAL_MAX_BYTES", &c.EphemeralMaxBytes, 268435456, between(0, 1099511627776)),
		number("QUEEN_EPHEMERAL_QUEUE_MAX_BYTES", &c.EphemeralQueueMaxBytes, 16777216, between(1, 1099511627776)),
		number("QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH", &c.EphemeralQueueMaxLength, 10000, between(1, 100000000)),
		number("QUEEN_EPHEMERAL_LEASE_S", &c.EphemeralLeaseSeconds, 30, between(1, 86400)),
		number("QUEEN_EPHEMERAL_RETRY_LIMIT", &c.EphemeralRetryLimit, 5, between(0, 1000)),
		number("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S", &c.EphemeralImplicitIdleSeconds, 300, between(0, 86400)),
		number("QUEEN_EPHEMERAL_RATE", &c.EphemeralRate, 5000, anyRate),
		number("QUEEN_EPHEMERAL_BURST", &c.EphemeralBurst, 10000, anyRate),
		derivedBoolean("QUEEN_EPHEMERAL_REQUIRE_GRANT", &c.EphemeralRequireGrant, tenancyWord(c)),
	}
}

func securityRows(c *Config) []variable {
	skipPaths := parsed("JWT_SKIP_PATHS", &c.JWTSkipPaths, allowedPaths, parsePaths)
	skipPaths.standard = fixed("/health,/metrics/prometheus,/metrics,/")
	jwksURL := derivedText("JWT_JWKS_URL", &c.JWTJWKSURL, allowedURL, fixed(""), isHTTPURL)
	jwksURL.hide = redactURL
	return []variable{
		masked(parsed("QUEEN_ENCRYPTION_KEY", &c.EncryptionKey, allowedKey, parseCurrentKey)),
		masked(parsed("QUEEN_ENCRYPTION_KEYS_OLD", &c.EncryptionKeysOld, allowedKeys, parseOldKeys)),
		boolean("JWT_ENABLED", &c.JWTEnabled, false),
		choice("JWT_ALGORITHM", &c.JWTAlgorithm, "HS256", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "EdDSA", "auto"),
		masked(text("JWT_SECRET", &c.JWTSecret, "", allowedText)),
		text("JWT_PUBLIC_KEY", &c.JWTPublicKey, "", allowedText),
		jwksURL,
		number("JWT_JWKS_REFRESH_INTERVAL", &c.JWTJWKSRefreshSeconds, 3600, between(5, 604800)),
		number("JWT_JWKS_TIMEOUT_MS", &c.JWTJWKSTimeoutMs, 5000, between(100, 60000)),
		text("JWT_ISSUER", &c.JWTIssuer, "", allowedText),
		text("JWT_AUDIENCE", &c.JWTAudience, "", allowedText),
		number("JWT_CLOCK_SKEW", &c.JWTClockSkewSeconds, 30, between(0, 3600)),
		boolean("JWT_REQUIRE_EXP", &c.JWTRequireExpiry, true),
		text("JWT_ROLES_CLAIM", &c.JWTRolesClaim, "role", allowedText),
		text("JWT_ROLES_ARRAY_CLAIM", &c.JWTRolesArrayClaim, "roles", allowedText),
		text("JWT_ROLE_ADMIN", &c.JWTRoleAdmin, "admin", allowedText),
		text("JWT_ROLE_READ_WRITE", &c.JWTRoleReadWrite, "read-write", allowedText),
		text("JWT_ROLE_READ_ONLY", &c.JWTRoleReadOnly, "read-only", allowedText),
		text("JWT_ROLE_WRITE_ONLY", &c.JWTRoleWriteOnly, "write-only", allowedText),
		skipPaths,
	}
}

func tenancyRows(c *Config) []variable {
	return []variable{
		boolean("QUEEN_TENANCY_HEADER", &c.TenancyHeader, false),
		boolean("QUEEN_KV_TRUSTED_PROXY", &c.KVTrustedProxy, false),
		number("QUEEN_RAFT_GROUPS", &c.RaftGroups, 1, between(1, highestGroup+1)),
		parsed("QUEEN_TENANT_GROUPS", &c.TenantGroups, allowedTenantGroups, parseTenantGroups),
		boolean("QUEEN_RAFT_CLIENT_OFFLOAD", &c.RaftClientOffload, true),
		derivedNumber("QUEEN_PROXY_PORT", &c.ProxyPort, between(1, highestPort), fixed("")),
		boolean("QUEEN_PROXY_ENFORCE", &c.ProxyEnforce, false),
		masked(text("QUEEN_PROXY_CP_TOKEN", &c.ProxyControlPlaneToken, "", allowedText)),
		derivedText("QUEEN_PROXY_BOOTSTRAP_TENANT", &c.ProxyBootstrapTenant, allowedSlug, fixed(""), isSlug),
		masked(derivedText("QUEEN_PROXY_BOOTSTRAP_API_KEY", &c.ProxyBootstrapAPIKey, allowedAPIKey, fixed(""), isAPIKey)),
		number("QUEEN_PROXY_MAX_BODY_BYTES", &c.ProxyMaxBodyBytes, 16777216, between(1024, 1073741824)),
		number("QUEEN_PROXY_MAX_BATCH_ITEMS", &c.ProxyMaxBatchItems, 10000, between(1, 1000000)),
		number("QUEEN_PROXY_LONGPOLL_MAX_MS", &c.ProxyLongPollMaxMs, 90000, between(1000, 600000)),
		number("QUEEN_PROXY_CELL_MAX_PARKED", &c.ProxyCellMaxParked, 5000, between(1, 1000000)),
	}
}

func observationRows(c *Config) []variable {
	return []variable{
		number("METRICS_FLUSH_MS", &c.MetricsFlushMs, 60000, between(1000, maxHourMs)),
		boolean("QUEEN_METRICS_TENANT_LABEL", &c.MetricsTenantLabel, true),
		number("QUEEN_METRICS_GROUP_LAG_MAX_CURSORS", &c.MetricsGroupLagMaxCursors, 200000, between(0, 100000000)),
		number("QUEEN_DASH_NODE_RETENTION_H", &c.DashboardNodeHours, 168, between(1, 8760)),
		number("QUEEN_DASH_QUEUE_RETENTION_H", &c.DashboardQueueHours, 24, between(1, 8760)),
		number("QUEEN_DASH_MAX_QUEUE_ROWS", &c.DashboardMaxQueueRows, 500000, between(1000, 100000000)),
		number("QUEEN_DASH_SIZES_MAX", &c.DashboardSizesMax, 10000, between(1, 1000000)),
		text("QUEEN_BACKUP_DIR", &c.BackupDirectory, "", allowedDirectory),
		number("QUEEN_BACKUP_EVERY_S", &c.BackupEverySeconds, 86400, between(60, 31536000)),
		number("QUEEN_BACKUP_KEEP", &c.BackupKeep, 7, between(1, 10000)),
		derivedText("QUEEN_TEST_REFUSE_APPLY_KV", &c.TestRefuseApplyKV, allowedNamespaceKey, fixed(""), isNamespaceKey),
		parsed("QUEEN_TEST_FAULTS", &c.TestFaults, allowedFaults, parseFaults),
	}
}
