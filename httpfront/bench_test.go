package httpfront

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"queen/httpfront/wire"
)

// BenchmarkPush sends pushes of one message over kept connections: head, admission, decoding, answer.
func BenchmarkPush(b *testing.B) {
	config := testConfig()
	config.AdmitBytes, config.AdmitHold = 128<<20, time.Second
	s, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	s.Handle(append(routingTable()[1:], Route{Method: "POST", Pattern: "/api/v1/push", Level: LevelWriteOnly, Admit: true, Handler: func(r *Request) {
		items, err := wire.DecodePush(r.Body())
		if err != nil {
			r.Fail(err)
			return
		}
		r.Answer(201, func(dst []byte) []byte {
			for i := range items {
				dst = wire.AppendPushVerdict(dst, i, &wire.PushVerdict{Txid: items[i].Txid, Queue: items[i].Queue})
			}
			return dst
		})
	}}))
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(port); err != nil {
		b.Fatal(err)
	}
	s.Open()
	defer s.Stop(context.Background())
	body := `{"items":[{"queue":"orders","partition":"customer-7","payload":{"id":1,"name":"Ada Lovelace","amount":12.50},"transactionId":"019a2b3c-4d5e-7f60-8a1b-000000000001"}]}`
	request := fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: localhost:6632\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", port.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		reader := bufio.NewReader(c)
		for pb.Next() {
			if _, err := io.WriteString(c, request); err != nil {
				b.Error(err)
				return
			}
			response, err := http.ReadResponse(reader, nil)
			if err != nil || response.StatusCode != 201 {
				b.Errorf("got %v, %v", response, err)
				return
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})
}
