package api

import (
	"time"

	"queen/httpfront"
	"queen/httpfront/api/history"
	"queen/httpfront/wire"
)

// defaultWindow is the time that an analytics route looks back when the request names none.
const defaultWindow = time.Hour

// window is the time range of an analytics request (messaging 14).
type window struct {
	history.Window
	from, to time.Time
	now      time.Time
}

type timeRange struct {
	From micros `json:"from"`
	To   micros `json:"to"`
}

func (w *window) timeRange() timeRange { return timeRange{microsOf(w.from), microsOf(w.to)} }

func microsOf(t time.Time) micros { return micros(max(t.UnixMicro(), 0)) }

// bucket is the beginning of a bucket as the routes show it.
func bucketTime(bucketMs int64) micros { return micros(max(bucketMs, 0) * 1000) }

// ranged makes a handler of one that wants the time range of the request: from and to, else the last hour.
func ranged(handle func(r *httpfront.Request, w *window) error) handler {
	return func(r *httpfront.Request) error {
		w, err := parseWindow(r, time.Now())
		if err != nil {
			return err
		}
		return handle(r, w)
	}
}

func parseWindow(r *httpfront.Request, now time.Time) (*window, error) {
	w := &window{now: now}
	to, present, err := instantOf(r, "to")
	if err != nil {
		return nil, err
	}
	if w.to = to; !present {
		w.to = now
	}
	from, present, err := instantOf(r, "from")
	if err != nil {
		return nil, err
	}
	if w.from = from; !present {
		w.from = w.to.Add(-defaultWindow)
	}
	w.Window = history.NewWindow(w.from, w.to)
	return w, nil
}

func instantOf(r *httpfront.Request, name string) (at time.Time, present bool, err error) {
	text, present, err := r.QueryText(name)
	if err != nil || !present {
		return time.Time{}, false, err
	}
	parsed, ok := wire.ParseTime(text)
	if !ok {
		return time.Time{}, true, httpfront.Refuse(httpfront.CodeBadRequest, name+" must be an ISO 8601 time")
	}
	return time.UnixMicro(parsed), true, nil
}
