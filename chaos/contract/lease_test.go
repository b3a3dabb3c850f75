package contract

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// leaseStamp is the form of a lease expiry: UTC with milliseconds (2.12).
var leaseStamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// needExtended ends the test unless the extend renewed this many partitions and shows one expiry three times.
func needExtended(t *testing.T, reply harness.ExtendReply, lease string, renewed int) time.Time {
	t.Helper()
	need(t, reply.Response, 200)
	if !reply.Success || reply.LeaseID != lease || reply.Renewed != renewed {
		t.Fatalf("want lease %s renewed in %d partitions, got %v", lease, renewed, reply.Response)
	}
	stamp := reply.Text("newExpiresAt")
	if !leaseStamp.MatchString(stamp) || reply.Text("expiresAt") != stamp || reply.Text("lease_expires_at") != stamp {
		t.Fatalf("want one expiry in milliseconds three times, got %v", reply.Response)
	}
	return *reply.NewExpiresAt
}

// needNotExtended ends the test unless the answer is the one for a lease that is not live.
func needNotExtended(t *testing.T, reply harness.ExtendReply, lease string) {
	t.Helper()
	need(t, reply.Response, 200)
	want := fmt.Sprintf(`{"leaseId":%s,"success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`, mustJSON(lease))
	if !sameJSON(reply.Body, []byte(want)) {
		t.Fatalf("want %s, got %v", want, reply.Response)
	}
}

// TestExtendSeconds: section 7, what the body means; the new expiry counts from the call.
func TestExtendSeconds(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	cases := map[string]struct {
		body any
		want time.Duration
	}{
		"no body":               {nil, 60 * time.Second},
		"not JSON":              {`{"seconds`, 60 * time.Second},
		"an empty object":       {`{}`, 60 * time.Second},
		"null":                  {`{"seconds":null}`, 60 * time.Second},
		"a string":              {`{"seconds":"90"}`, 60 * time.Second},
		"a boolean":             {`{"seconds":true}`, 60 * time.Second},
		"an array":              {`{"seconds":[90]}`, 60 * time.Second},
		"another field":         {`{"leaseSeconds":90}`, 60 * time.Second},
		"another JSON value":    {`[5]`, 60 * time.Second},
		"1":                     {`{"seconds":1}`, time.Second},
		"an integer":            {`{"seconds":90}`, 90 * time.Second},
		"below 1":               {`{"seconds":0}`, time.Second},
		"negative":              {`{"seconds":-30}`, time.Second},
		"a fraction":            {`{"seconds":30.2}`, 31 * time.Second},
		"a fraction below 1":    {`{"seconds":0.1}`, time.Second},
		"more than 100 years":   {`{"seconds":99999999999999}`, 100 * 365 * day},
		"an exponent, 2 digits": {`{"seconds":1e2}`, 100 * time.Second},
	}
	for name, c := range cases {
		t.Run("7 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 1)
			s.leaseTime = max(1, int(c.want/time.Second)/3) // shorter than what the extend asks for
			batch, before := s.awaited(0, 0, anyAttempt), time.Now()
			reply := s.client.Extend(batch.lease, c.body)
			for tries := 0; !reply.Success && tries < 5; tries++ { // a busy machine may not extend a lease of 1 s in time
				batch, before = s.awaited(0, 0, anyAttempt), time.Now()
				reply = s.client.Extend(batch.lease, c.body)
			}
			after := time.Now()
			expiry := needExtended(t, reply, batch.lease, 1)
			slack := stampSlack
			if c.want > 365*day {
				slack = 60 * day // how many days 100 years have is the server's to say
			}
			if expiry.Before(before.Add(c.want-slack)) || expiry.After(after.Add(c.want+slack)) {
				t.Fatalf("want an expiry %v after the call, got %v", c.want, expiry.Sub(before))
			}
		})
	}
}

// TestExtendNeverShortens: section 7, max(current expiry, now + seconds).
func TestExtendNeverShortens(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	s.leaseTime = 100
	before := time.Now()
	batch := s.redelivered(0, 0, 1)
	first := needExtended(t, s.client.Extend(batch.lease, `{"seconds":1}`), batch.lease, 1)
	if first.Before(before.Add(100*time.Second - stampSlack)) {
		t.Fatalf("want the expiry of the claim to stay, got one after %v", first.Sub(before))
	}
	if again := needExtended(t, s.client.Extend(batch.lease, `{"seconds":50}`), batch.lease, 1); !again.Equal(first) {
		t.Fatalf("want %v, got %v", first, again)
	}
	if longer := needExtended(t, s.client.Extend(batch.lease, `{"seconds":200}`), batch.lease, 1); !longer.After(first) {
		t.Fatalf("want more than %v, got %v", first, longer)
	}
}

// TestExtendReachesEveryPartitionOfThePop: section 7; what is already acked no longer counts.
func TestExtendReachesEveryPartitionOfThePop(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 0)
	for _, partition := range []string{"a", "b", "c"} {
		pushAll(t, s.client, numbered(s.queue, partition, partition, 2)...)
	}
	reply := s.pop(wholeBacklog, "partitions=3")
	if need(t, reply.Response, 200); reply.PartitionsClaimed != 3 {
		t.Fatalf("want three partitions, got %v", reply)
	}
	needExtended(t, s.client.Extend(reply.LeaseID, nil), reply.LeaseID, 3)
	needVerdicts(t, s.client.AckMessages("completed", reply.Messages[0]), kept) // half of a partition keeps its lease
	needExtended(t, s.client.Extend(reply.LeaseID, nil), reply.LeaseID, 3)
	needVerdicts(t, s.client.AckMessages("completed", reply.Messages[1]), released)
	needExtended(t, s.client.Extend(reply.LeaseID, nil), reply.LeaseID, 2)
	needVerdicts(t, s.client.AckMessages("failed", reply.Messages[2]), released)
	needExtended(t, s.client.Extend(reply.LeaseID, nil), reply.LeaseID, 1)
	needVerdicts(t, s.client.AckMessages("completed", reply.Messages[4:]...), released)
	needNotExtended(t, s.client.Extend(reply.LeaseID, nil), reply.LeaseID)
}

// TestExtendOfALeaseThatIsNotLive: section 7, always 200 with success false.
func TestExtendOfALeaseThatIsNotLive(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]string{"unknown": "018f2f60-0000-7000-8000-000000000000", "not a UUID": "nothing", "empty": "", "odd": "a/b c"} {
		t.Run("7 "+name, func(t *testing.T) {
			t.Parallel()
			needNotExtended(t, suite.client.Extend(lease, `{"seconds":5}`), lease)
		})
	}
	t.Run("7 released", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 1)
		batch := s.redelivered(0, 0, 1)
		needVerdicts(t, batch.ack(completed(0)), released)
		needNotExtended(t, s.client.Extend(batch.lease, nil), batch.lease)
	})
	t.Run("7 expired, although nobody else has claimed yet", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 1)
		s.leaseTime = 1
		batch := s.redelivered(0, 0, 1)
		eventually(t, delivery, func() (bool, string) { // an ack looks without prolonging anything
			reply := s.client.AckBatch(s.group, s.items(batch.lease, completed(99))...)
			need(t, reply.Response, 200)
			return verdictOf(reply.Items[0]) == badLease, reply.String()
		})
		needNotExtended(t, s.client.Extend(batch.lease, nil), batch.lease)
		s.redelivered(0, 0, 2)
	})
}

// TestExtendKeepsALeaseAlive: section 7, leaseTime 6 s and an extend each second: an ack after 7 s succeeds, and
// nobody else got the message in between.
func TestExtendKeepsALeaseAlive(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"leaseTime": 6}, 1)
	start := time.Now()
	batch := s.redelivered(0, 0, 1)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for time.Since(start) < 7*time.Second {
		<-ticker.C
		needExtended(t, s.client.Extend(batch.lease, `{"seconds":6}`), batch.lease, 1)
		s.needNothing()
	}
	needVerdicts(t, batch.ack(completed(0)), released)
	s.needNothing()
}

// TestParkedPopWaitsForTheExtendedExpiry: sections 5.7 and 7.
func TestParkedPopWaitsForTheExtendedExpiry(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	s.leaseTime = 3
	batch := s.redelivered(0, 0, 1)
	start := time.Now()
	parked := make(chan harness.PopReply, 1)
	go func() { // ends with its pop
		parked <- s.client.Pop(s.queue, s.query(wholeBacklog, "wait=true", waitFor(delivery)))
	}()
	needExtended(t, s.client.Extend(batch.lease, `{"seconds":5}`), batch.lease, 1)
	reply := <-parked
	waited := time.Since(start)
	s.needClaim(reply, 0, 0, 2)
	if waited < 5*time.Second-stampSlack {
		t.Fatalf("delivered %v after the claim, the lease was extended by 5s", waited)
	}
}
