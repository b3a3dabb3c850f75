package cluster

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clockMark makes the test binary a process that prints its wall clock, and how much its monotonic clock has moved since it began, for
// every line it reads.
const clockMark = "CHAOS_TEST_CLOCK"

func tellTimeIfAsked() {
	if os.Getenv(clockMark) == "" {
		return
	}
	start := time.Now()
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		_, _ = os.Stdout.WriteString(strconv.FormatInt(time.Now().UnixNano(), 10) + " " + strconv.FormatInt(int64(time.Since(start)), 10) + "\n")
	}
	os.Exit(0)
}

// TestClockOfOneProcessMoves: its wall clock goes on from another instant, again and again, and its monotonic clock as before.
func TestClockOfOneProcessMoves(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), clockMark+"=1")
	questions, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = questions.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewScanner(answers)
	ask := func() (off, monotonic time.Duration) {
		t.Helper()
		before := time.Now()
		if _, err := questions.Write([]byte("?\n")); err != nil || !lines.Scan() {
			t.Fatalf("the process does not answer: %v", err)
		}
		wall, since, _ := strings.Cut(lines.Text(), " ")
		nanoseconds, err := strconv.ParseInt(wall, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		elapsed, err := strconv.ParseInt(since, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(0, nanoseconds).Sub(before.Round(0)), time.Duration(elapsed)
	}
	_, last := ask()
	for _, by := range []time.Duration{0, 10 * time.Second, -10 * time.Second, 11 * time.Millisecond, -288*time.Second - 7*time.Millisecond, 999 * time.Millisecond, 0} {
		if err := moveClock(command.Process.Pid, by); err != nil {
			t.Fatal(err)
		}
		for range 50 { // over the end of a second
			off, monotonic := ask()
			if slip := off - by; slip < -time.Millisecond || slip > soon {
				t.Fatalf("moved by %v, the clock is off by %v", by, off)
			}
			if monotonic < last || monotonic > last+soon {
				t.Fatalf("the monotonic clock went from %v to %v", last, monotonic)
			}
			last = monotonic
		}
	}
}

// TestSignalHandlerIsSeen: the masks are of a thread in a handler, of one that runs Go code, and of one that the runtime keeps to make others.
func TestSignalHandlerIsSeen(t *testing.T) {
	for mask, want := range map[string]bool{"fffffffffffbfeff": true, "0000000000000000": false, "fffffffc3bba3a00": false} {
		if got := handlesSignal([]byte("SigPnd:\t0\nSigBlk:\t" + mask + "\nSigIgn:\t0\n")); got != want {
			t.Errorf("%s: got %v", mask, got)
		}
	}
}
