package wire

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// pushBody makes a push of items that have about 256 bytes of JSON each.
func pushBody(items int) []byte {
	var body bytes.Buffer
	body.WriteString(`{"items":[`)
	for i := range items {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"queue":"orders","partition":"customer-%d","payload":{"id":%d,"name":"Ada Lovelace","tags":["a","b","c"],`+
			`"amount":12.50,"note":"%s"},"transactionId":"019a2b3c-4d5e-7f60-8a1b-%012d"}`, i%10, i, strings.Repeat("x", 70), i)
	}
	body.WriteString(`]}`)
	return body.Bytes()
}

func BenchmarkDecodePush(b *testing.B) {
	for _, items := range []int{1, 100} {
		body := pushBody(items)
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodePush(body); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/item")
		})
	}
}

// BenchmarkJSONTextTokens is the library that serves as oracle in the tests, reading the same body token by token.
func BenchmarkJSONTextTokens(b *testing.B) {
	body := pushBody(100)
	reader := bytes.NewReader(body)
	decoder := jsontext.NewDecoder(reader, jsontext.AllowDuplicateNames(true))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		decoder.Reset(reader, jsontext.AllowDuplicateNames(true))
		for depth := 0; ; {
			if depth == 3 && decoder.PeekKind() != '}' {
				if _, err := decoder.ReadValue(); err != nil {
					b.Fatal(err)
				}
				continue
			}
			token, err := decoder.ReadToken()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			switch token.Kind() {
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/item")
}
