package ledger

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestOpenCallIsUnknownUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := NewHistory(nil)
		time.Sleep(time.Second)
		answer := history.Push([]PushItem{pushed("m0", "t0", "", -1)})
		before := history.Books()
		time.Sleep(time.Second)
		answer(Done, []PushItem{pushed("m0", "t0", "queued", 0)})
		after := history.Books()
		if open := before.Pushes[0]; open.Outcome != Unknown || open.Span != (Span{Start: time.Second}) || open.Items[0].Status != "" {
			t.Errorf("want an open call, got %+v", open)
		}
		if closed := after.Pushes[0]; closed.Outcome != Done || closed.Span != (Span{time.Second, 2 * time.Second}) || closed.Items[0].Status != "queued" {
			t.Errorf("want the answer, got %+v", closed)
		}
	})
}

// TestAnswerReadInABlackoutDoesNotCount: only calls that were open in the dark lose their answer.
func TestAnswerReadInABlackoutDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := NewHistory(nil)
		early := history.Pop("q", "g", time.Second)
		early(Done, "L1", nil)
		time.Sleep(time.Second)
		open := history.Pop("q", "g", time.Second)
		refused := history.Ack("g", "L1", nil)
		time.Sleep(time.Second)
		lit := history.Blackout()
		time.Sleep(time.Second)
		during := history.Pop("q", "g", time.Second)
		lit()
		time.Sleep(time.Second)
		late := history.Pop("q", "g", time.Second)
		for i, answer := range []func(Outcome, string, []Delivery){open, during, late} {
			answer(Done, fmt.Sprint("L", i+2), []Delivery{{}})
		}
		refused(NotDone, nil)
		books := history.Books()
		for i, want := range []Outcome{Done, Unknown, Unknown, Done} {
			if got := books.Pops[i]; got.Outcome != want || (want == Unknown) != (got.LeaseID == "") {
				t.Errorf("pop %d: want %v, got %+v", i, want, got)
			}
		}
		if books.Acks[0].Outcome != NotDone {
			t.Errorf("a refusal stays one, got %v", books.Acks[0].Outcome)
		}
	})
}

func TestOutcomeClassesAreThoseOfTheContract(t *testing.T) {
	broken := errors.New("connection reset")
	for _, c := range []struct {
		status int
		err    error
		want   Outcome
	}{
		{200, nil, Done}, {201, nil, Done}, {204, nil, Done},
		{400, nil, NotDone}, {404, nil, NotDone}, {413, nil, NotDone}, {429, nil, NotDone}, {507, nil, NotDone},
		{500, nil, Unknown}, {503, nil, Unknown}, {504, nil, Unknown},
		{0, broken, Unknown}, {0, fmt.Errorf("dial: %w", syscall.ECONNREFUSED), NotDone},
	} {
		if got := Classify(c.status, c.err); got != c.want {
			t.Errorf("status %d, error %v: want %v, got %v", c.status, c.err, c.want, got)
		}
	}
}
