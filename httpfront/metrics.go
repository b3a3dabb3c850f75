package httpfront

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// requestSecondsBounds are the upper bounds of queen_http_request_seconds: from a push on an idle node to the longest
// poll.
var requestSecondsBounds = []float64{
	0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60,
}

// frontStats are the metrics of the server (operations 3.4).
type frontStats struct {
	set       *metrics.Set
	parked    atomic.Int64
	admission admissionStats

	mu     sync.Mutex
	routes map[string]*routeStats
}

// admissionStats count local requests that had to wait for room or were refused, and the commands of other nodes.
type admissionStats struct {
	waited                          *metrics.Counter
	refused                         *metrics.Counter
	forwardAdmitted, forwardRefused *metrics.Counter
}

// routeStats are the metrics of one route. route is the pattern, never the raw path.
type routeStats struct {
	set     *metrics.Set
	route   string
	seconds *metrics.PrometheusHistogram

	mu       sync.RWMutex
	byStatus map[int]*metrics.Counter
}

func newFrontStats(set *metrics.Set) *frontStats {
	stats := &frontStats{
		set:    set,
		routes: map[string]*routeStats{},
		admission: admissionStats{
			waited:  set.NewCounter(`queen_raft_admit_total{outcome="waited"}`),
			refused: set.NewCounter(`queen_raft_admit_total{outcome="refused"}`),

			forwardAdmitted: set.NewCounter(`queen_raft_admit_forwarded_total{outcome="admitted"}`),
			forwardRefused:  set.NewCounter(`queen_raft_admit_forwarded_total{outcome="refused"}`),
		},
	}
	set.NewGauge("queen_parked_long_polls", func() float64 { return float64(stats.parked.Load()) })
	return stats
}

// exportAdmission adds the gauges of the byte permits.
func (f *frontStats) exportAdmission(a *admission) {
	f.set.NewGauge(`queen_raft_admit_bytes{kind="cap"}`, func() float64 { return float64(a.capacity) })
	f.set.NewGauge(`queen_raft_admit_bytes{kind="held"}`, func() float64 {
		held, _ := a.state()
		return float64(held)
	})
	f.set.NewGauge("queen_raft_admit_waiting", func() float64 {
		_, waiting := a.state()
		return float64(waiting)
	})
}

// route returns the metrics of a pattern, the same for all methods of it.
func (f *frontStats) route(pattern string) *routeStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stats := f.routes[pattern]; stats != nil {
		return stats
	}
	name := fmt.Sprintf("queen_http_request_seconds{route=%q}", pattern)
	stats := &routeStats{
		set:      f.set,
		route:    pattern,
		seconds:  f.set.NewPrometheusHistogramExt(name, requestSecondsBounds),
		byStatus: map[int]*metrics.Counter{},
	}
	f.routes[pattern] = stats
	return stats
}

func (r *routeStats) observe(status int, took time.Duration) {
	r.seconds.Update(took.Seconds())
	r.mu.RLock()
	counter := r.byStatus[status]
	r.mu.RUnlock()
	if counter == nil {
		counter = r.set.GetOrCreateCounter(fmt.Sprintf("queen_http_requests_total{route=%q,status=%q}", r.route, strconv.Itoa(status)))
		r.mu.Lock()
		r.byStatus[status] = counter
		r.mu.Unlock()
	}
	counter.Inc()
}

// metricsType is the Content-Type of the metrics page (messaging 2.1).
const metricsType = "text/plain; version=0.0.4"

// MetricsPage makes the handler of GET /metrics/prometheus: the metrics of the server, then those of the writers, which
// append families of other packages in the text format.
func (s *Server) MetricsPage(writers ...func(io.Writer)) Handler {
	return func(r *Request) {
		r.Ctx.SetStatusCode(200)
		r.Ctx.Response.Header.SetContentType(metricsType)
		page := r.Ctx.Response.BodyWriter()
		s.stats.set.WritePrometheus(page)
		for _, write := range writers {
			write(page)
		}
	}
}
