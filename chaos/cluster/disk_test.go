package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"queen/chaos/powercut"
)

const (
	// smallVolumeBytes is room for a node and not for much more.
	smallVolumeBytes = 1 << 30
	// ballastChunkBytes is how much the ballast grows at a time; the last one is what the disk still has.
	ballastChunkBytes = 1 << 20
)

// TestFullDiskOfAFollower: the disk of a follower runs full. It stops and keeps its process, the others serve, and it goes on by itself
// once there is room (cluster.md 11.4).
func TestFullDiskOfAFollower(t *testing.T) {
	on, volume := onSmallVolume(t, 3)
	play(t, "TestFullDiskOfAFollower", on, func(s *scene) {
		s.vacates(volume)
		s.acked(50)
		full := s.Node(3)
		if s.leading() == full {
			s.transferred(full, 1, 1)
		}
		s.fillUp(full, volume)
		s.ackedThrough(full, 20)
		s.passes(s.now() + 4*time.Second) // its disk was measured since, and what it last said of it counts no more
		s.ackedThrough(full, 20)
		s.resumes(full, volume)
		s.acked(20)
	})
}

// TestFullDiskOfTheOnlyNode: the same of a node that is alone. It refuses what it cannot store, loses nothing, starts with a full disk as well,
// and goes on by itself.
func TestFullDiskOfTheOnlyNode(t *testing.T) {
	on, volume := onSmallVolume(t, 1)
	on.nodes = 1
	play(t, "TestFullDiskOfTheOnlyNode", on, func(s *scene) {
		s.vacates(volume)
		s.acked(50)
		full := s.Node(1)
		s.fillUp(full, volume)
		s.gate.Close()
		for path, want := range map[string]struct {
			body   string
			status int
			code   string
		}{
			"/api/v1/push":      {`{"items":[{"queue":"unheard","payload":1}]}`, 507, "storage_full"}, // the gate comes first
			"/api/v1/configure": {`{"queue":"unheard"}`, 503, "retry"},
		} {
			s.must(Eventually(formsWithin, fmt.Sprintf("%d %s", want.status, want.code), func() error { // the disk is measured once a second
				answer := full.Client().Post(path, want.body)
				if answer.Status != want.status || answer.Text("code") != want.code {
					return fmt.Errorf("POST %s with a full disk: %v", path, answer)
				}
				return nil
			}))
		}
		goesOn := func() {
			s.resumes(full, volume)
			s.gate.Open()
			s.acked(20)
		}
		goesOn()

		for _, end := range []func(){full.Kill, func() { s.stopsUncleanly(full) }} {
			s.fillUp(full, volume)
			s.gate.Close()
			end()
			s.must(full.Launch())
			s.must(Eventually(formsWithin, "it starts, to say that it has stopped", func() error { return stopped(full) }))
			goesOn()
		}
	})
}

// stopsUncleanly stops a node whose state has stopped before: at once, and not as if all were well (cluster.md 17.2).
func (s *scene) stopsUncleanly(node *Node) {
	s.Helper()
	if err := node.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		s.Errorf("stop with a full disk: want exit status 1, got %v", err)
	}
}

// onSmallVolume is a stage on which a node has a small disk of its own. The disk gate stays open until the disk is full, so that a write
// meets the end of it.
func onSmallVolume(t *testing.T, node uint64) (stage, *powercut.Volume) {
	t.Helper()
	needAsked(t)
	if os.Geteuid() != 0 {
		t.Skip("a volume of its own needs root")
	}
	volume, err := powercut.NewVolumeOf(directory(t), smallVolumeBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := volume.Close(); err != nil {
			t.Error(err)
		}
	})
	on := suite(20 * time.Millisecond)
	on.env["QUEEN_RAFT_DISK_HIGH_PCT"], on.env["QUEEN_RAFT_DISK_LOW_PCT"] = "99", "98"
	on.envOf = map[uint64]map[string]string{node: {"QUEEN_RAFT_DIR": dataOn(volume)}}
	return on, volume
}

// vacates empties the small volume for the next run when this one is over.
func (s *scene) vacates(volume *powercut.Volume) {
	s.Cleanup(func() {
		s.close()
		if err := errors.Join(os.RemoveAll(dataOn(volume)), os.RemoveAll(ballastOn(volume))); err != nil {
			s.Error(err)
		}
	})
}

func dataOn(volume *powercut.Volume) string    { return filepath.Join(volume.Path(), "queen") }
func ballastOn(volume *powercut.Volume) string { return filepath.Join(volume.Path(), "ballast") }

// fillUp fills the disk of a node until the node has stopped.
func (s *scene) fillUp(node *Node, volume *powercut.Volume) {
	s.Helper()
	s.expected = []string{"this node stops", "this store stops", "APPLY FAILED", "waits for room", "FATAL: close store"}
	s.must(fill(ballastOn(volume)))
	s.must(Eventually(formsWithin, "the node with the full disk stops", func() error {
		return errors.Join(stopped(node), fill(ballastOn(volume))) // it gives back what it had in reserve
	}))
}

// stopped returns nil when a node says that it has stopped, for its storage.
func stopped(node *Node) error {
	health, err := node.Health()
	if err == nil && (health.Raft.Role != "stopped" || health.Raft.StorageReady || health.Healthy()) {
		err = errors.New(health.String())
	}
	return err
}

// resumes makes room on the disk and waits until the node goes on by itself.
func (s *scene) resumes(node *Node, volume *powercut.Volume) {
	s.Helper()
	s.must(os.Remove(ballastOn(volume)))
	from := s.now()
	s.must(s.AwaitHealthy(formsWithin, node))
	s.record.Set("resumedAfter", s.now()-from)
	if _, err := os.Stat(filepath.Join(dataOn(volume), "reserve")); err != nil {
		s.Error("there is no reserve again: ", err)
	}
}

// fill grows a file until the disk is full.
func fill(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open ballast: %w", err)
	}
	chunk := make([]byte, ballastChunkBytes)
	for err == nil {
		_, err = file.Write(chunk)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil && !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("flush ballast: %w", err)
	}
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("write ballast: %w", err)
	}
	return nil
}
