package inflate

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func compress(t testing.TB, plain string) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = encoder.Close() }()
	return encoder.EncodeAll([]byte(plain), nil)
}

// stream is a frame that does not say how much it holds.
func stream(t testing.TB, plain string) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(plain); at += 1000 {
		if _, err = encoder.Write([]byte(plain[at:min(at+1000, len(plain))])); err == nil {
			err = encoder.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := encoder.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPayloadIsDecompressedWithinItsBound(t *testing.T) {
	document := `{"text":"` + strings.Repeat("x", 100_000) + `"}`
	for name, c := range map[string]struct {
		compressed []byte
		most       int
		err        error
	}{
		"as large as allowed":          {compress(t, document), len(document), nil},
		"one byte too large":           {compress(t, document), len(document) - 1, ErrTooLarge},
		"a stream, as large as may be": {stream(t, document), len(document), nil},
		"a stream, too large":          {stream(t, document), len(document) - 1, ErrTooLarge},
		"nothing allowed":              {compress(t, document), 0, ErrTooLarge},
		"no zstd":                      {[]byte(document), 1 << 20, ErrNotZstd},
		"cut off":                      {compress(t, document)[:20], 1 << 20, ErrNotZstd},
		"no bytes":                     {nil, 1 << 20, ErrNotJSON},
		"no JSON":                      {compress(t, "{"), 1 << 20, ErrNotJSON},
		"not UTF-8":                    {compress(t, "\"\xff\""), 1 << 20, ErrNotJSON},
	} {
		plain, err := JSON(c.compressed, c.most)
		if !errors.Is(err, c.err) || c.err == nil && string(plain) != document {
			t.Errorf("%s: %d bytes, %v", name, len(plain), err)
		}
	}
}

func FuzzInflate(f *testing.F) {
	f.Add(compress(f, `{"n":1}`))
	f.Add(stream(f, `[]`))
	f.Fuzz(func(t *testing.T, compressed []byte) {
		const most = 1 << 16
		if plain, err := JSON(compressed, most); err == nil && len(plain) > most {
			t.Fatalf("%d bytes", len(plain))
		}
	})
}
