package node

import (
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"queen/actors"
	"queen/cmd/queen/config"
	"queen/cmd/queen/version"
	"queen/httpfront"
	"queen/httpfront/api"
	"queen/httpfront/api/history"
	"queen/httpfront/envelope"
	"queen/raftlog/command"
	"queen/store"
)

// What the packages are configured with, from the settings of the process.

func milliseconds(ms config.Milliseconds) time.Duration { return time.Duration(ms) * time.Millisecond }

func seconds(s config.Seconds) time.Duration { return time.Duration(s) * time.Second }

func apiConfig(c *config.Config) api.Config {
	return api.Config{
		PushTimeout:  milliseconds(c.PopDefaultTimeoutMs),
		PopTimeout:   milliseconds(c.PopWaitMs()),
		WriteTimeout: milliseconds(c.StatementTimeoutMs),
		SubscribeAll: c.DefaultSubscriptionMode == "all",
		SizesMax:     c.DashboardSizesMax,
		KV: api.KVConfig{
			ValueBytes: uint32(c.KVMaxValueBytes), ReadBytes: uint32(c.KVMaxReadBytes), Ops: c.KVMaxOpsPerCall, Keys: c.KVMaxKeysPerCall,
		},
		Timers: api.TimerLimits{
			MaxOps:          c.TimersMaxOpsPerCall,
			MaxPayloadBytes: int(c.TimersMaxPayloadBytes),
			HorizonSeconds:  int64(c.TimersMaxHorizonSeconds),
			InflatedBytes:   messageMaxBytes(c),
		},

		GroupLagMaxCursors: int(c.MetricsGroupLagMaxCursors),
		SumTenants:         !c.MetricsTenantLabel,
		Version:            version.Get().Version,
		ServerID:           c.ServerID,
		Port:               c.Port,
		Settings:           c.Settings(),
	}
}

// messageMaxBytes is the largest payload that a fire can append: what a client could push, and what one log entry and one block
// of the store carry beside everything that goes with it.
func messageMaxBytes(c *config.Config) int {
	const besideBytes = 512 << 10
	return int(min(c.MaxBodyBytes, c.RaftEntryMaxBytes-besideBytes, store.MaxBlockBytes-8*besideBytes))
}

func timersConfig(c *config.Config, keys *envelope.Keyring) actors.TimersConfig {
	return actors.TimersConfig{
		Tick:     milliseconds(c.TimerTickMs),
		Batch:    c.TimerFireBatch,
		MaxBytes: int(c.TimerFireMaxBytes),
		Backoff: command.TimerBackoff{
			MinMs:       uint32(c.SweeperBackoffMinMs),
			MaxMs:       uint32(c.SweeperBackoffMaxMs),
			TransientMs: uint32(c.SweeperTransientBackoffMs),
			MaxAttempts: uint32(c.SweeperMaxAttempts),
		},
		MaxPayloadBytes: messageMaxBytes(c),
		Sealer:          keys,
	}
}

func cleanupDays(c *config.Config) uint32 {
	if !c.PartitionCleanupEnabled {
		return 0
	}
	return uint32(c.PartitionCleanupDays)
}

func historyOptions(c *config.Config, log zerolog.Logger) history.Options {
	return history.Options{
		Dir:          filepath.Join(c.RaftDirectory, "history"),
		FlushEvery:   milliseconds(c.MetricsFlushMs),
		NodeKeep:     time.Duration(c.DashboardNodeHours) * time.Hour,
		QueueKeep:    time.Duration(c.DashboardQueueHours) * time.Hour,
		MaxQueueRows: int(c.DashboardMaxQueueRows),
		Log:          log,
	}
}

func keyring(c *config.Config) (*envelope.Keyring, error) {
	var current *envelope.Key
	if c.EncryptionKey != nil {
		current = &envelope.Key{ID: c.EncryptionKey.ID, Bytes: c.EncryptionKey.Bytes}
	}
	old := make([]envelope.Key, len(c.EncryptionKeysOld))
	for i, key := range c.EncryptionKeysOld {
		old[i] = envelope.Key{ID: key.ID, Bytes: key.Bytes}
	}
	return envelope.New(current, old)
}

func authConfig(c *config.Config, log zerolog.Logger) httpfront.AuthConfig {
	return httpfront.AuthConfig{
		Algorithm: c.JWTAlgorithm, Secret: c.JWTSecret, PublicKey: c.JWTPublicKey, JWKSURL: c.JWTJWKSURL,
		JWKSRefresh: seconds(c.JWTJWKSRefreshSeconds), JWKSTimeout: milliseconds(c.JWTJWKSTimeoutMs),
		Issuer: c.JWTIssuer, Audience: c.JWTAudience, ClockSkew: seconds(c.JWTClockSkewSeconds),
		RequireExp: c.JWTRequireExpiry, RolesClaim: c.JWTRolesClaim, RolesArrayClaim: c.JWTRolesArrayClaim,
		RoleAdmin: c.JWTRoleAdmin, RoleReadWrite: c.JWTRoleReadWrite, RoleReadOnly: c.JWTRoleReadOnly,
		RoleWriteOnly: c.JWTRoleWriteOnly, SkipPaths: c.JWTSkipPaths, Log: log,
	}
}
