package command

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func sampleEntry(c Command) Entry {
	return Entry{Header: sampleHeader(), Items: []Item{{
		Request: RequestID{Origin: 0x0102030405060708, Sequence: 300}, AnsweredBelow: 299, Command: c}}}
}

// The log of a released version must stay readable for ever, so the bytes of every command are pinned.
func TestEncodingEqualsGoldenFiles(t *testing.T) {
	for _, sample := range sampleCommands() {
		t.Run(sample.name, func(t *testing.T) {
			entry := sampleEntry(sample.command)
			data := EncodeEntry(&entry)
			path := filepath.Join("testdata", "golden", sample.name+".hex")
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(hex.Dump(data)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.Dump(data); got != string(want) {
				t.Fatalf("bytes differ from %s:\n%s\nwant\n%s", path, got, want)
			}
			decoded, err := DecodeEntry(data)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(decoded, entry) {
				t.Fatalf("decoded %+v\nwant %+v", decoded, entry)
			}
		})
	}
}

func TestEveryOpcodeHasASample(t *testing.T) {
	have := map[Opcode]bool{}
	for _, sample := range sampleCommands() {
		have[sample.command.Op()] = true
	}
	for op := OpTermStart; op <= OpSwitches; op++ {
		if !have[op] {
			t.Errorf("opcode %d has no sample command", op)
		}
	}
}

func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entry := drawEntry(t)
		data := EncodeEntry(&entry)
		decoded, err := DecodeEntry(data)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if len(entry.Items) == 0 {
			entry.Items = []Item{}
		}
		if !reflect.DeepEqual(decoded, entry) {
			t.Fatalf("decoded %+v\nwant %+v", decoded, entry)
		}
		header, count, err := DecodeHeader(data)
		if err != nil || header != entry.Header || count != len(entry.Items) {
			t.Fatalf("header %+v count %d err %v", header, count, err)
		}
	})
}

func TestPointerAndValueEncodeAlike(t *testing.T) {
	value := Item{Command: Extend{Seconds: 5}}
	pointer := Item{Command: &Extend{Seconds: 5}}
	if !bytes.Equal(AppendItem(nil, &value), AppendItem(nil, &pointer)) {
		t.Fatal("encodings differ")
	}
}

func TestEveryFlippedBitIsDetected(t *testing.T) {
	entry := sampleEntry(sampleCommands()[2].command)
	data := EncodeEntry(&entry)
	for i := range data {
		for b := range 8 {
			data[i] ^= 1 << b
			if _, err := DecodeEntry(data); !errors.Is(err, ErrBadEntry) {
				t.Fatalf("bit %d of byte %d: err = %v", b, i, err)
			}
			data[i] ^= 1 << b
		}
	}
}

// reseal gives changed bytes a right checksum, so that the checks behind it are reached.
func reseal(data []byte) []byte { return AppendChecksum(data[:len(data)-checksumBytes]) }

func TestEveryCutEntryIsRefused(t *testing.T) {
	for _, sample := range sampleCommands() {
		entry := sampleEntry(sample.command)
		data := EncodeEntry(&entry)
		body := data[:len(data)-checksumBytes]
		for n := range len(body) {
			if _, err := DecodeEntry(AppendChecksum(bytes.Clone(body[:n]))); err == nil {
				t.Fatalf("%s: %d of %d bytes are accepted", sample.name, n, len(body))
			}
		}
	}
}

func TestHostileEntriesAreRefused(t *testing.T) {
	entry := sampleEntry(Extend{Seconds: 5})
	itemStart := headerFixed + 1
	opcode := itemStart + itemLength + 8 + 2 + 2
	cases := []struct {
		name   string
		change func(data []byte) []byte
		want   error
	}{
		{"empty", func([]byte) []byte { return nil }, ErrBadEntry},
		{"newer format", func(b []byte) []byte { b[0] = FormatVersion + 1; return reseal(b) }, ErrUnknownFormat},
		{"opcode zero", func(b []byte) []byte { b[opcode] = 0; return reseal(b) }, ErrUnknownFormat},
		{"unknown opcode", func(b []byte) []byte { b[opcode] = 200; return reseal(b) }, ErrUnknownFormat},
		{"unknown version", func(b []byte) []byte { b[opcode+1] = 2; return reseal(b) }, ErrUnknownFormat},
		{"count too large", func(b []byte) []byte { b[headerFixed] = 100; return reseal(b) }, ErrBadEntry},
		{"count too small", func(b []byte) []byte { b[headerFixed] = 0; return reseal(b) }, ErrBadEntry},
		{"item longer than entry", func(b []byte) []byte { b[itemStart]++; return reseal(b) }, ErrBadEntry},
		{"item shorter than command", func(b []byte) []byte { b[itemStart]--; return reseal(b) }, ErrBadEntry},
		{"byte after the last item", func(b []byte) []byte {
			return AppendChecksum(append(b[:len(b)-checksumBytes], 0))
		}, ErrBadEntry},
		{"byte after the last field", func(b []byte) []byte {
			b[itemStart]++
			return AppendChecksum(append(b[:len(b)-checksumBytes], 0))
		}, ErrBadEntry},
		{"number in a longer form", func(b []byte) []byte {
			b[itemStart]++
			b[len(b)-checksumBytes-1] = 0x85
			return AppendChecksum(append(b[:len(b)-checksumBytes], 0))
		}, ErrBadEntry},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := DecodeEntry(c.change(EncodeEntry(&entry))); !errors.Is(err, c.want) {
				t.Fatalf("err = %v, want %v", err, c.want)
			}
		})
	}
}

func TestValuesOutsideTheirRangeAreRefused(t *testing.T) {
	chunk := testChunk(1, 3)
	cases := map[string]Command{
		"push of no message":       Push{Groups: []PushGroup{{Count: 0, Chunk: chunk}}},
		"push of more than fit":    Push{Groups: []PushGroup{{Count: 2, Chunk: chunk}}},
		"push without chunk":       Push{Groups: []PushGroup{{Count: 1, Queue: strings.Repeat("q", 40)}}},
		"transaction of no push":   Transaction{Pushes: []PushGroup{{Count: 0, Chunk: chunk}}},
		"ack status":               Ack{Parts: []AckPart{{Items: []AckItem{{Status: 4}}}}},
		"subscription mode":        Register{Subscription: Subscription{Mode: 4}},
		"claim seed":               Claim{Parts: []ClaimPart{{Seed: Subscription{Mode: 9}}}},
		"option zero":              Configure{Changes: []OptionChange{{Key: 0}}},
		"end of a plan":            Membership{End: PlanDropped + 1},
		"kind of a plan":           Membership{Begin: &Plan{}},
		"step of a plan":           Membership{Begin: &Plan{Kind: PlanVoters, Steps: []PlanStep{{Op: StepReset + 1}}}},
		"option of a newer format": Configure{Changes: []OptionChange{{Key: OptionRetentionSinkHoldMaxSeconds + 1}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			entry := sampleEntry(c)
			if _, err := DecodeEntry(EncodeEntry(&entry)); !errors.Is(err, ErrBadEntry) {
				t.Fatalf("err = %v, want %v", err, ErrBadEntry)
			}
		})
	}
}

// A length field must never make the decoder allocate for elements that the input has no room for.
func TestHostileLengthsAllocateNothing(t *testing.T) {
	item := []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, byte(OpAck), commandVersion}
	item = append(item, make([]byte, 16)...) // tenant
	item = append(item, 0)                   // group
	item = binary.AppendUvarint(item, 1<<40) // parts
	header := sampleHeader()
	data := AppendHeader(nil, &header, 1)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(item)))
	data = AppendChecksum(append(data, item...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := DecodeEntry(data)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrBadEntry) {
		t.Fatalf("err = %v", err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<10 {
		t.Fatalf("allocated %d bytes for %d bytes of input", allocated, len(data))
	}
}

func TestDigestIsThatOfTheCommandsAlone(t *testing.T) {
	entry := sampleEntry(Extend{Seconds: 5})
	first := Digest(EncodeEntry(&entry))
	if len(first) != 16 {
		t.Fatalf("digest %q has not 16 digits", first)
	}
	entry.Header.StampMicros++
	if got := Digest(EncodeEntry(&entry)); got != first {
		t.Fatalf("digest %q changed to %q with the stamp", first, got)
	}
	entry.Items[0].Command = Extend{Seconds: 6}
	if got := Digest(EncodeEntry(&entry)); got == first {
		t.Fatal("digest does not tell two commands apart")
	}
	if got := Digest([]byte("short")); len(got) != 16 {
		t.Fatalf("digest of malformed bytes is %q", got)
	}
}

func TestOverheadBoundHolds(t *testing.T) {
	header := sampleHeader()
	data := AppendChecksum(AppendHeader(nil, &header, 1<<31))
	if len(data) > MaxEntryOverheadBytes {
		t.Fatalf("overhead is %d bytes, bound %d", len(data), MaxEntryOverheadBytes)
	}
}

func TestForeignCommandPanics(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "BUG:") {
			t.Fatalf("recovered %q", text)
		}
	}()
	AppendItem(nil, &Item{})
}

func FuzzDecodeEntry(f *testing.F) {
	for _, sample := range sampleCommands() {
		entry := sampleEntry(sample.command)
		f.Add(EncodeEntry(&entry))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// With the checksum made right the fuzzer gets past it.
		for _, input := range [][]byte{data, AppendChecksum(bytes.Clone(data))} {
			Digest(input)
			entry, err := DecodeEntry(input)
			if err != nil {
				if !errors.Is(err, ErrBadEntry) && !errors.Is(err, ErrUnknownFormat) {
					t.Fatalf("undeclared error %v", err)
				}
				continue
			}
			if again := EncodeEntry(&entry); !bytes.Equal(again, input) {
				t.Fatalf("a second encoding of the same value: %x, want %x", input, again)
			}
		}
	})
}

func FuzzNextMessage(f *testing.F) {
	f.Add(testChunk(3, 10))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, chunk []byte) {
		rest := chunk
		for len(rest) > 0 {
			var message Message
			next, err := NextMessage(rest, &message)
			if err != nil {
				if !errors.Is(err, ErrBadChunk) {
					t.Fatalf("undeclared error %v", err)
				}
				return
			}
			if len(next) >= len(rest) {
				t.Fatal("no progress")
			}
			var again Message
			left, err := NextMessage(AppendMessage(nil, &message), &again)
			if err != nil || len(left) > 0 || !reflect.DeepEqual(message.EffectiveTxid(nil), again.EffectiveTxid(nil)) ||
				!bytes.Equal(message.Payload, again.Payload) {
				t.Fatalf("message changed: %+v to %+v (%v)", message, again, err)
			}
			rest = next
		}
	})
}

func BenchmarkEntryOfPush100(b *testing.B) {
	entry := sampleEntry(Push{Tenant: DefaultTenant,
		Groups: []PushGroup{{Queue: "orders", Partition: "Default", Count: 100, Chunk: testChunk(100, 256)}}})
	data := EncodeEntry(&entry)
	b.Run("encode", func(b *testing.B) {
		buffer := make([]byte, 0, 2*len(data))
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			buffer = AppendHeader(buffer[:0], &entry.Header, 1)
			buffer = AppendItem(buffer, &entry.Items[0])
			buffer = AppendChecksum(buffer)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeEntry(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeAckOf100(b *testing.B) {
	items := make([]AckItem, 100)
	for i := range items {
		items[i].Txid = testUUID(byte(i)).String()
	}
	entry := sampleEntry(Ack{Tenant: DefaultTenant, Group: "workers", Parts: []AckPart{{Partition: 5, Items: items}}})
	data := EncodeEntry(&entry)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEntry(data); err != nil {
			b.Fatal(err)
		}
	}
}
