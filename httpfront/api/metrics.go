package api

import (
	"time"

	"queen/httpfront"
)

type totalAndRate struct {
	Total uint64 `json:"total"`
	Rate  int    `json:"rate"`
}

// metricsAnswer is /metrics (messaging 14): the numbers that this server does not have are 0.
type metricsAnswer struct {
	Uptime   float64      `json:"uptime"`
	Requests totalAndRate `json:"requests"`
	Messages totalAndRate `json:"messages"`
	Memory   struct {
		RSS          uint64 `json:"rss"`
		HeapTotal    int    `json:"heapTotal"`
		HeapUsed     int    `json:"heapUsed"`
		External     int    `json:"external"`
		ArrayBuffers int    `json:"arrayBuffers"`
	} `json:"memory"`
	CPU struct {
		User   int `json:"user"`
		System int `json:"system"`
	} `json:"cpu"`
	Engine string     `json:"engine"`
	Raft   raftAnswer `json:"raft"`
}

// metrics answers /metrics.
func (a *API) metrics(r *httpfront.Request) error {
	health := a.node.Health()
	answer := &metricsAnswer{
		Uptime:   time.Since(a.stats.Started).Seconds(),
		Requests: totalAndRate{Total: a.stats.Requests.Load()},
		Messages: totalAndRate{Total: a.stats.PushMessages.Load() + a.stats.PopMessages.Load()},
		Engine:   "raft",
		Raft:     health.raft(),
	}
	answer.Memory.RSS = residentBytes()
	return answerJSON(r, 200, answer)
}
