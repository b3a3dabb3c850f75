package layout

import (
	"bytes"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestGoldenKeys pins every family: a key that changes makes existing data unreadable.
func TestGoldenKeys(t *testing.T) {
	id := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	hash := [16]byte{0xf0, 0xf1, 15: 0xff}
	const (
		one    = "0000000000000001"
		two    = "0000000000000002"
		three  = "0000000000000003"
		lease  = "00112233445566778899aabbccddeeff"
		hashed = "f0f100000000000000000000000000ff"
	)
	tests := []struct {
		name string
		got  []byte
		want string // first character is the family letter itself
	}{
		{"Meta", Meta("applied"), "m" + "6170706c696564"},
		{"Queue", Queue(1), "q" + one},
		{"Group", Group(1, 2), "g" + one + two},
		{"GroupsOf", GroupsOf(1), "g" + one},
		{"PartitionName", PartitionName(1, "p"), "n" + one + "70"},
		{"Partition", Partition(1), "i" + one},
		{"PartitionNamesOf", PartitionNamesOf(1), "n" + one},
		{"PartitionUUID", PartitionUUID(id), "u" + lease},
		{"Head", Head(1, 2), "p" + one + two},
		{"HeadsOf", HeadsOf(1), "p" + one},
		{"Page", Page(1, 2), "x" + one + two},
		{"PagesOf", PagesOf(1), "x" + one},
		{"Hashes", Hashes(1, 2), "h" + one + two},
		{"HashesOf", HashesOf(1), "h" + one},
		{"Cursor", Cursor(1, 2, 3), "c" + one + two + three},
		{"CursorsOf", CursorsOf(1, 2), "c" + one + two},
		{"AllCursorsOf", AllCursorsOf(1), "c" + one},
		{"Released", Released(1, 2, 3), "C" + one + two + three},
		{"ReleasedOf", ReleasedOf(1, 2), "C" + one + two},
		{"AllReleasedOf", AllReleasedOf(1), "C" + one},
		{"Lease", Lease(id, 1), "l" + lease + one},
		{"LeaseOf", LeaseOf(id), "l" + lease},
		{"DeadLetter", DeadLetter(1, id), "d" + one + lease},
		{"DeadLettersOf", DeadLettersOf(1), "d" + one},
		{"DeadLetterPlace", DeadLetterPlace(1, 2, 3), "D" + one + two + three},
		{"DeadLetterPlacesOf", DeadLetterPlacesOf(1), "D" + one},
		{"DeadLetterID", DeadLetterID(id), "e" + lease},
		{"DeadLetterTxid", DeadLetterTxid(1, hash, id), "E" + one + hashed + lease},
		{"DeadLettersAt", DeadLettersAt(1, hash), "E" + one + hashed},
		{"Position", Position(1, 2, 3), "o" + one + two + three},
		{"PositionsOf", PositionsOf(1, 2), "o" + one + two},
		{"AllPositionsOf", AllPositionsOf(1), "o" + one},
		{"Trash", Trash(1, 2), "t" + one + two},
		{"Outcome", Outcome(1), "r" + one},
		{"Trace", Trace(1), "z" + one},
		{"TraceAt", TraceAt(hash, 1), "Z" + hashed + one},
		{"TracesAt", TracesAt(hash), "Z" + hashed},
		{"TraceName", TraceName(id, "p"), "w" + lease + "70"},
		{"TraceNameRow", TraceNameRow(1), "W" + one},
		{"TraceNamed", TraceNamed(1, 2), "y" + one + two},
		{"TracesNamed", TracesNamed(1), "y" + one},
		{"TraceNameMessage", TraceNameMessage(1, hash), "Y" + one + hashed},
		{"TraceNameSeen", TraceNameSeen(id, 1, 2), "v" + lease + "fffffffffffffffe" + two},
		{"TraceNamesSeen", TraceNamesSeen(id), "v" + lease},
		{"TraceNameCount", TraceNameCount(id), "V" + lease},
		{"KV", KV(id, "n", "k"), "k" + lease + "6e" + "00" + "6b"},
		{"KVRowsOf", KVRowsOf(id, "n"), "k" + lease + "6e" + "00"},
		{"KVExpiry", KVExpiry(1, KV(id, "n", "k")), "K" + one + lease + "6e" + "00" + "6b"},
		{"KVExpiryFrom", KVExpiryFrom(1), "K" + one},
		{"KVChunk", KVChunk(1, KV(id, "n", "k")), "B" + one + lease + "6e" + "00" + "6b"},
		{"KVChunksIn", KVChunksIn(1), "B" + one},
		{"KVNamespace", KVNamespace(id, "n"), "s" + lease + "6e"},
		{"KVNamespacesOf", KVNamespacesOf(id), "s" + lease},
		{"KVUsage", KVUsage(id), "U" + lease},
		{"Timer", Timer(id, "pq", "r"), "T" + lease + "0002" + "7071" + "72"},
		{"TimersOf", TimersOf(id, "pq"), "T" + lease + "0002" + "7071"},
		{"TimerDue", TimerDue(1, 2, 3), "f" + one + "8000000000000002" + three},
		{"TimerDue", TimerDue(1, -2, 3), "f" + one + "7ffffffffffffffe" + three},
		{"TimersDue", TimersDue(), "f"},
		{"TimerCount", TimerCount(id), "F" + lease},
		{"TimerChunk", TimerChunk(1, Timer(id, "pq", "r")), "G" + one + lease + "0002" + "7071" + "72"},
		{"TimerChunksIn", TimerChunksIn(1), "G" + one},
		{"Member", Member(1), "M" + one},
		{"Members", Members(), "M"},
		{"Bucket", Bucket(1), "b" + one},
	}
	pinned := map[string]bool{"LastNumber": true, "KVPlace": true, "KVIndexed": true, "SplitTimer": true, "SplitTimerDue": true, "TimerOfChunk": true}
	families := map[byte]bool{}
	for _, test := range tests {
		want, err := hex.DecodeString(hex.EncodeToString([]byte(test.want[:1])) + test.want[1:])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(test.got, want) {
			t.Errorf("%s: %x, want %x", test.name, test.got, want)
		}
		pinned[test.name] = true
		families[test.got[0]] = true
	}
	functions, letters := declared(t)
	for _, name := range functions {
		if !pinned[name] {
			t.Errorf("%s is not pinned", name)
		}
	}
	for _, letter := range letters {
		if !families[letter] {
			t.Errorf("family %q is not pinned", letter)
		}
	}
}

// declared lists the exported functions and the family letters of the package, so that a new one cannot be forgotten
// here. A letter that stands for two families is an error.
func declared(t *testing.T) (functions []string, letters []byte) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[byte]string{}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			if function.Name.IsExported() {
				functions = append(functions, function.Name.Name)
			}
			continue
		}
		for _, spec := range declaration.(*ast.GenDecl).Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(value.Names[0].Name, "Family") {
				continue
			}
			literal, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[literal[0]]; ok {
				t.Errorf("%s and %s share the letter %s", other, value.Names[0].Name, literal)
			}
			seen[literal[0]] = value.Names[0].Name
			letters = append(letters, literal[0])
		}
	}
	if len(functions) == 0 || len(letters) == 0 {
		t.Fatal("nothing is declared")
	}
	return functions, letters
}

// TestKeysSortByTheirNumbers is what range scans rely on.
func TestKeysSortByTheirNumbers(t *testing.T) {
	numbers := []uint64{0, 1, 255, 256, 1<<32 - 1, 1 << 32, 1<<64 - 1}
	for i := 1; i < len(numbers); i++ {
		low, high := numbers[i-1], numbers[i]
		if bytes.Compare(Page(7, low), Page(7, high)) >= 0 || bytes.Compare(Head(low, 9), Head(high, 0)) >= 0 {
			t.Errorf("%d does not sort before %d", low, high)
		}
		if LastNumber(Cursor(1, 2, high)) != high {
			t.Errorf("last number of a cursor of partition %d", high)
		}
	}
}

// TestPrefixesHoldTheirRowsOnly: a prefix of one queue must not match rows of another.
func TestPrefixesHoldTheirRowsOnly(t *testing.T) {
	if bytes.HasPrefix(Head(0x0100, 1), HeadsOf(1)) || !bytes.HasPrefix(Head(1, 0x0100), HeadsOf(1)) {
		t.Error("heads of a queue")
	}
	if bytes.HasPrefix(Group(2, 1), GroupsOf(1)) || !bytes.HasPrefix(Cursor(1, 2, 3), CursorsOf(1, 2)) {
		t.Error("groups or cursors of a queue")
	}
}

func TestKVKeysAreReadBack(t *testing.T) {
	id := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	row := KV(id, "orders", "a/b")
	if tenant, namespace, key, ok := KVPlace(row); !ok || tenant != id || namespace != "orders" || key != "a/b" {
		t.Errorf("read %s, %q, %q, %v", tenant, namespace, key, ok)
	}
	for _, key := range [][]byte{KVExpiry(7, row), KVChunk(7, row)} {
		if number, found, ok := KVIndexed(key); !ok || number != 7 || !bytes.Equal(found, row) {
			t.Errorf("%x: read %d, %x, %v", key, number, found, ok)
		}
	}
	for _, bad := range [][]byte{nil, row[:16], row[:20], Queue(1)} {
		if _, _, _, ok := KVPlace(bad); ok {
			t.Errorf("%x is the key of a row", bad)
		}
	}
	if _, _, ok := KVIndexed(KVExpiryFrom(1)[:8]); ok {
		t.Error("a cut key is read")
	}
}

func TestTimerOfAChunkIsReadBack(t *testing.T) {
	row := Timer(uuid.UUID{1}, "orders", "a/b")
	if found, ok := TimerOfChunk(TimerChunk(7, row)); !ok || !bytes.Equal(found, row) {
		t.Errorf("read %x, %v", found, ok)
	}
	for _, bad := range [][]byte{nil, TimerChunksIn(1)[:8], row, KVChunk(7, KV(uuid.UUID{1}, "n", "k"))} {
		if _, ok := TimerOfChunk(bad); ok {
			t.Errorf("%x is the key of a chunk of a timer", bad)
		}
	}
}

// TestKVRowsSortByTheirKeys: a namespace that begins like another one is not in its range, and keys are in the order of
// their bytes (state 2.8).
func TestKVRowsSortByTheirKeys(t *testing.T) {
	id := uuid.UUID{1}
	if bytes.HasPrefix(KV(id, "ab", "k"), KVRowsOf(id, "a")) {
		t.Error("rows of a longer namespace are in the range of a shorter one")
	}
	keys := []string{"\x01", "a", "a\x01", "a/", "a0", "b", "é", "\xff"}
	for i := 1; i < len(keys); i++ {
		if bytes.Compare(KV(id, "a", keys[i-1]), KV(id, "a", keys[i])) >= 0 {
			t.Errorf("%q does not sort before %q", keys[i-1], keys[i])
		}
	}
	if bytes.Compare(KVExpiry(1, KV(uuid.UUID{9}, "z", "z")), KVExpiry(2, KV(uuid.UUID{1}, "a", "a"))) >= 0 {
		t.Error("expiries do not sort by their instant")
	}
}

// TestTimersOfAQueueStandTogether: a queue whose name begins like that of another, or that ends where a timer key begins, has a
// range of its own, and within one the order is that of the bytes of the keys.
func TestTimersOfAQueueStandTogether(t *testing.T) {
	tenant := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	if bytes.HasPrefix(Timer(tenant, "ab", "c"), TimersOf(tenant, "a")) || bytes.Equal(Timer(tenant, "ab", "c"), Timer(tenant, "a", "bc")) {
		t.Error("timers of two queues run together")
	}
	keys := []string{"a", "a\x00", "a/1", "ab", "b", "\xc3\xa9", "\xff"}
	for i := 1; i < len(keys); i++ {
		if bytes.Compare(Timer(tenant, "q", keys[i-1]), Timer(tenant, "q", keys[i])) >= 0 {
			t.Errorf("%q does not sort before %q", keys[i-1], keys[i])
		}
	}
}

func TestTimerKeysSplitIntoTheirParts(t *testing.T) {
	tenant := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	key := Timer(tenant, "orders", "order/9f1")
	if got, queue, timerKey, ok := SplitTimer(key); !ok || got != tenant || queue != "orders" || timerKey != "order/9f1" {
		t.Errorf("split into %v, %q, %q, %v", got, queue, timerKey, ok)
	}
	for n := range len(TimersOf(tenant, "orders")) {
		if _, _, _, ok := SplitTimer(key[:n]); ok {
			t.Errorf("%d bytes are taken for a timer key", n)
		}
	}
	for _, deliver := range []int64{-1 << 63, -5, 0, 5, 1<<63 - 1} {
		if due, got, number, ok := SplitTimerDue(TimerDue(7, deliver, 9)); !ok || due != 7 || got != deliver || number != 9 {
			t.Errorf("split into %d, %d, %d, %v", due, got, number, ok)
		}
	}
	if _, _, _, ok := SplitTimerDue(TimerDue(7, 8, 9)[:24]); ok {
		t.Error("a part of a key is taken for a place")
	}
	if _, _, _, ok := SplitTimerDue(key); ok {
		t.Error("a timer key is taken for a place")
	}
}

// TestPlacesSortByTheirInstants: what may fire first stands first, and of what may fire at the same instant the oldest deliverAt.
func TestPlacesSortByTheirInstants(t *testing.T) {
	places := [][]byte{TimerDue(1, 9, 9), TimerDue(2, -9, 9), TimerDue(2, -1, 9), TimerDue(2, 0, 9), TimerDue(2, 5, 1), TimerDue(2, 5, 2),
		TimerDue(256, -9, 0)}
	for i := 1; i < len(places); i++ {
		if bytes.Compare(places[i-1], places[i]) >= 0 {
			t.Errorf("place %d does not sort before place %d", i-1, i)
		}
	}
}
