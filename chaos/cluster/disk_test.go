package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	on.envOf = map[uint64]map[string]string{3: {"QUEEN_RAFT_DIR": filepath.Join(volume.Path(), "queen")}}
	play(t, "TestFullDisk", on, func(s *scene) {
		s.expected = []string{"this node stops"}
		s.acked(50)
		full := s.Node(3)
		if s.leading() == full {
			s.transferred(full, 1, 1)
		}
		ballast := filepath.Join(volume.Path(), "ballast")
		s.must(fill(ballast))
		s.must(Eventually(formsWithin, "the node with the full disk stops", func() error {
			health, err := full.Health()
			if err == nil && (health.Raft.Role != "stopped" || health.Healthy()) {
				err = errors.New(health.String())
			}
			return errors.Join(err, fill(ballast)) // it gives back what it had in reserve
		}))
		s.ackedThrough(full, 20)
		s.must(os.Remove(ballast))
		from := s.now()
		s.must(s.AwaitHealthy(formsWithin, full))
		s.record.Set("resumedAfter", s.now()-from)
		s.acked(20)
	})
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
