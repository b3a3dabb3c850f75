// Package inflate decompresses what clients have compressed (state 3.2). Whoever prepares a command does it, never apply: a
// library that got better must not make two nodes differ.
package inflate

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// What is wrong with a compressed payload. Wrapped with detail.
var (
	ErrNotZstd  = errors.New("the payload is not zstd")
	ErrTooLarge = errors.New("the payload expands beyond what a message may hold")
	ErrNotJSON  = errors.New("the payload is not JSON")
)

// leastWindowBytes is the window that a frame may ask for however little may be in it: compressors that do not know the size of
// what comes ask for as much.
const leastWindowBytes = 8 << 20

// JSON decompresses a payload of at most so many bytes and checks that it is JSON. Beside a window it takes no more memory than
// that, whatever the payload claims to hold.
func JSON(compressed []byte, mostBytes int) ([]byte, error) {
	// One decoder a call: a pool would keep the windows of the largest payloads.
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max(mostBytes, leastWindowBytes))))
	if err != nil {
		return nil, fmt.Errorf("make a zstd decoder: %w", err)
	}
	defer decoder.Close()
	plain, err := decoder.DecodeAll(compressed, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) || len(plain) > mostBytes:
		return nil, fmt.Errorf("decompress: %w: %d bytes", ErrTooLarge, mostBytes)
	case err != nil:
		return nil, fmt.Errorf("decompress: %w: %w", ErrNotZstd, err)
	case !json.Valid(plain) || !utf8.Valid(plain):
		return nil, fmt.Errorf("read %d decompressed bytes: %w", len(plain), ErrNotJSON)
	}
	return plain, nil
}
