package cluster

import (
	"os"
	"path/filepath"
	"strconv"

	"queen/chaos/powercut"
)

// powered gives each node a volume that can lose its power, and returns what the nodes have to be told. The machinery is that of the
// power campaign; every answer that was sent before a cut counts.
func (s *scene) powered(nodes int, seed uint64) map[uint64]map[string]string {
	s.Helper()
	envOf := map[uint64]map[string]string{}
	cutters := map[uint64]*powercut.Cutter{}
	for i := range nodes {
		id := uint64(i + 1)
		dir := filepath.Join(s.dir, "power-"+strconv.Itoa(i+1))
		s.must(os.Mkdir(dir, 0o755))
		volume, err := powercut.NewVolume(dir)
		s.must(err)
		data := filepath.Join(volume.Path(), "queen")
		cutters[id] = powercut.NewCutter(volume, data, seed+id)
		s.Cleanup(func() { // the processes are gone by then
			cutters[id].Close()
			if err := volume.Close(); err != nil {
				s.Error(err)
			}
		})
		envOf[id] = map[string]string{"QUEEN_RAFT_DIR": data}
	}
	s.cutPower = func(node *Node) error {
		err := cutters[node.ID].CutFrozen(node.broker)
		node.paused = false
		return err
	}
	return envOf
}
