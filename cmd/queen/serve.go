package main

import (
	"context"

	"github.com/rs/zerolog"

	"queen/cmd/queen/config"
	"queen/cmd/queen/node"
)

// serve runs the node until ctx ends (the first SIGTERM or SIGINT) and returns nil after a clean stop. When
// secondSignal(ctx) closes, the stop skips to its last step (cluster 17.1). An error is a FATAL: the caller logs it and
// exits with 1.
func serve(ctx context.Context, cfg config.Config, log zerolog.Logger) error {
	return node.Run(ctx, cfg, log, secondSignal(ctx))
}
