package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// secondSignalKey is the context key of the channel that secondSignal returns.
type secondSignalKey struct{}

// watchSignals returns a context that ends with the first SIGTERM or SIGINT. A second one closes secondSignal. stop ends the
// watching and waits for it.
func watchSignals(parent context.Context, log zerolog.Logger) (ctx context.Context, stop func()) {
	// Room for both signals that mean something, so that neither is lost while the goroutine logs.
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGTERM, syscall.SIGINT)
	ctx, stopped := stopOnSignals(parent, log, received)
	return ctx, func() {
		signal.Stop(received)
		close(received)
		<-stopped
	}
}

// stopOnSignals is watchSignals without the operating system. It ends, and closes stopped, when received is closed or
// after the second signal.
func stopOnSignals(parent context.Context, log zerolog.Logger, received <-chan os.Signal) (context.Context, <-chan struct{}) {
	hurry, stopped := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithValue(parent, secondSignalKey{}, (<-chan struct{})(hurry)))
	go func() {
		defer close(stopped)
		defer cancel()
		first, open := <-received
		if !open {
			return
		}
		log.Info().Str("signal", first.String()).Msg("stopping")
		cancel()
		if second, open := <-received; open {
			log.Warn().Str("signal", second.String()).Msg("stopping at once: running requests are cut")
			close(hurry)
		}
	}()
	return ctx, stopped
}

// secondSignal returns a channel that closes with the second SIGTERM or SIGINT. It never closes for a context that
// does not come from watchSignals.
func secondSignal(ctx context.Context) <-chan struct{} {
	hurry, _ := ctx.Value(secondSignalKey{}).(<-chan struct{})
	return hurry
}
