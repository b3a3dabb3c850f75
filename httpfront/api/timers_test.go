package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"queen/actors/inflate"
)

// Payloads that fail have been decompressed in vain. One call does that once, not for each of its operations.
func TestAFailedPayloadSpendsWhatACallMayInflate(t *testing.T) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = encoder.Close() }()
	const inflatable = 1 << 20
	compress := func(text string) []byte { return encoder.EncodeAll([]byte(text), nil) }
	good := compress(`"` + strings.Repeat("x", inflatable/4) + `"`)
	for name, bad := range map[string]struct {
		payload []byte
		want    error
	}{
		"too large": {compress(`"` + strings.Repeat("x", inflatable) + `"`), inflate.ErrTooLarge},
		"not JSON":  {compress(strings.Repeat("x", inflatable-1)), inflate.ErrNotJSON},
		"not zstd":  {good[:len(good)-3], inflate.ErrNotZstd},
	} {
		t.Run(name, func(t *testing.T) {
			p := timersPlan{inflatable: inflatable}
			if _, err := p.inflate(bad.payload); !errors.Is(err, bad.want) {
				t.Fatalf("got %v", err)
			}
			for _, payload := range [][]byte{bad.payload, good} {
				if _, err := p.inflate(payload); !errors.Is(err, errNoMoreInflating) {
					t.Fatalf("want no more work, got %v", err)
				}
			}
		})
	}
	p := timersPlan{inflatable: inflatable}
	for range 3 {
		if _, err := p.inflate(good); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.inflate(good); !errors.Is(err, errNoMoreInflating) {
		t.Fatalf("want no more work, got %v", err)
	}
}
