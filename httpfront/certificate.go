package httpfront

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// certificateInterval is how often the files of a certificate are looked at (operations 6.2).
const certificateInterval = 10 * time.Second

// Certificate is a key pair in two files that follows their changes: a new pair serves new connections, an unreadable one
// is logged and the old one stays (operations 6.2).
type Certificate struct {
	certFile, keyFile string
	log               zerolog.Logger
	current           atomic.Pointer[tls.Certificate]
	seen              atomic.Pointer[fileTimes]
}

// fileTimes are the modification times of both files.
type fileTimes struct{ cert, key time.Time }

// LoadCertificate reads a pair for the first time.
func LoadCertificate(certFile, keyFile string, log zerolog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.seen.Store(&fileTimes{})
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// Current returns the present pair.
func (c *Certificate) Current() *tls.Certificate { return c.current.Load() }

// Config returns the TLS settings of the HTTP port: 1.2 and up, with the present pair.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// Watch looks at the files every 10 s until ctx ends.
func (c *Certificate) Watch(ctx context.Context) {
	ticker := time.NewTicker(certificateInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.Reload()
		}
	}
}

// Reload reads the pair again when a file has changed. SIGHUP calls it too.
func (c *Certificate) Reload() {
	if times, err := c.times(); err == nil && *times == *c.seen.Load() {
		return
	}
	if err := c.load(); err != nil {
		c.log.Error().Err(err).Msg("tls: the new certificate cannot be used, the old one stays")
		return
	}
	c.log.Info().Str("file", c.certFile).Msg("tls: new certificate")
}

func (c *Certificate) times() (*fileTimes, error) {
	cert, err := os.Stat(c.certFile)
	if err != nil {
		return nil, err
	}
	key, err := os.Stat(c.keyFile)
	if err != nil {
		return nil, err
	}
	return &fileTimes{cert: cert.ModTime(), key: key.ModTime()}, nil
}

func (c *Certificate) load() error {
	// The times are read first: a change during the reading is seen by the next look.
	times, err := c.times()
	if err != nil {
		return fmt.Errorf("find certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	c.current.Store(&pair)
	c.seen.Store(times)
	return nil
}
