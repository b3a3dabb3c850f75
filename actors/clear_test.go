package actors

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// TestPayloadInClearForAQueueThatEncrypts: the node that takes a push may not have applied yet that the queue encrypts. The log decides,
// and stores no payload in clear behind the change (messaging 4.5).
func TestPayloadInClearForAQueueThatEncrypts(t *testing.T) {
	r := newRig(t)
	r.push("plain", "p", "before")
	_, err := r.Execute(soon(), command.Configure{Tenant: command.DefaultTenant, Queue: "secret",
		Changes: []command.OptionChange{{Key: command.OptionEncryptionEnabled, Flag: true}}})
	if err != nil {
		t.Fatal(err)
	}
	bare := pushGroup("secret", "p", "t1")
	sealed := command.PushGroup{Queue: "secret", Partition: "p", Count: 1, Chunk: command.AppendMessage(nil, &command.Message{
		ID: uuid.Must(uuid.NewV7()), Txid: []byte("t1"), Payload: []byte(`{"encrypted":"AAAA"}`), Encrypted: true})}

	for name, call := range map[string]func() error{
		"push": func() error {
			_, err := r.Push(command.DefaultTenant, []command.PushGroup{pushGroup("plain", "p", "beside"), bare}, soon())
			return err
		},
		"transaction": func() error {
			_, err := r.Execute(soon(), command.Transaction{
				Tenant: command.DefaultTenant, Pushes: []command.PushGroup{pushGroup("plain", "p", "beside"), bare}})
			return err
		},
	} {
		var refusal *command.Refusal
		if err := call(); !errors.As(err, &refusal) || refusal.Code != "retry" {
			t.Errorf("%s: got %v, want a refusal to try again", name, err)
		}
	}
	// The partition of a refused push was never there, and its id is given to the next one, of whatever queue.
	if _, err := r.Push(command.DefaultTenant, []command.PushGroup{pushGroup("plain", "new", "beside"), bare}, soon()); err == nil {
		t.Error("a push in clear was taken")
	}
	r.push("other", "p", "first")
	if got := r.push("other", "p", "second"); got.FirstOffset != 1 {
		t.Errorf("the second message has offset %d, want 1", got.FirstOffset)
	}
	other := r.Directory().Queue(command.DefaultTenant, "other")
	if heads := r.CountPartitions(other.ID, 10); heads != 1 {
		t.Errorf("the queue has %d partitions, want 1", heads)
	}

	if got := r.push("plain", "p", "after"); got.FirstOffset != 1 {
		t.Errorf("something of a refused command was stored: the next offset is %d, want 1", got.FirstOffset)
	}
	results, err := r.Push(command.DefaultTenant, []command.PushGroup{sealed}, soon())
	if err != nil || results[0].FirstOffset != 0 || len(results[0].Duplicates) > 0 {
		t.Errorf("sealed: got %+v, %v", results, err)
	}
}
