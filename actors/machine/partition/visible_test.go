package partition

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"queen/raftlog/command"
	"queen/store/layout"
)

func TestNothingIsReadWhereNothingIsHidden(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		r.push(fmt.Sprint("t", i))
	}
	r.now += minute
	gets, scans := r.store.Gets, r.store.Scans
	first, end, next, err := r.machine.Visible(r.store, 17, Visibility{NowMicros: r.now, DelayMicros: second,
		WindowBufferMicros: second, Retention: Retention{AgeMicros: hour, EvictMicros: hour}})
	if first != 17 || end != 200 || next != 0 || err != nil {
		t.Errorf("visible: %d %d %d %v", first, end, next, err)
	}
	if to, err := r.machine.EndWithin(r.store, ByteLimit{First: 17, End: 200, MaxBytes: 64 << 20}); to != 200 || err != nil {
		t.Errorf("end within: %d %v", to, err)
	}
	if r.store.Gets != gets || r.store.Scans != scans {
		t.Errorf("%d gets, %d scans", r.store.Gets-gets, r.store.Scans-scans)
	}
}

func TestMissingPageIsReported(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		r.push(fmt.Sprint("t", i))
	}
	r.load()
	pages := r.store.Keys(layout.PagesOf(testPartition))
	r.store.Delete([]byte(pages[2]))
	messages := MessageRange{Queue: testQueue, Partition: testPartition, End: 200}
	err := ReadMessages(r.store, messages, func(uint64, uint64, *command.Message) (bool, error) { return true, nil })
	if !errors.Is(err, ErrMissingPage) {
		t.Errorf("read over a hole: %v", err)
	}
}

func TestPayloadSizeIsThatOfTheClearText(t *testing.T) {
	for size := range 40 {
		text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, size))
		envelope := fmt.Sprintf(`{"encrypted":"%s","iv":"AAAA","authTag":"AAAA","keyId":"1"}`, text)
		sealed := &command.Message{Payload: []byte(envelope), Encrypted: true}
		if got := payloadBytes(sealed); got != uint64(size) {
			t.Errorf("%d bytes in an envelope count as %d", size, got)
		}
		sealed.Encrypted = false
		if got := payloadBytes(sealed); got != uint64(len(envelope)) {
			t.Errorf("a payload that looks like an envelope counts as %d", got)
		}
	}
}
