package identity

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// Reset empties the directory for a node that returns to its cluster under a new incarnation (cluster 2.6): the log and the
// store of every group go, and the cluster is adopted. verdict is why, see Identity.Returning. Both must be closed. A directory of another cluster is left alone
// (ErrForeign). A crash in the middle is completed by the next Open.
func (s *Store) Reset(clusterID string, clusterEpoch uint64, verdict string) error {
	if current := s.Current(); current.ClusterID != "" && current.ClusterID != clusterID {
		return fmt.Errorf("%w: %s, not %s", ErrForeign, current.ClusterID, clusterID)
	}
	err := s.Update(func(i *Identity) {
		*i = Identity{
			ClusterID: clusterID, ClusterEpoch: clusterEpoch, NodeID: i.NodeID,
			Incarnation: uuid.NewString(), BootNonce: i.BootNonce, Lineage: i.Lineage, Resetting: true, Returning: verdict,
		}
	})
	if err != nil {
		return err
	}
	s.options.Faults("rejoin.reset")
	return s.finishReset()
}

// finishReset deletes what the groups hold. The new incarnation is durable by then, so half of a group under the former
// one is never started.
func (s *Store) finishReset() error {
	for _, name := range append(stateDirectories[:], "snapshots") {
		if err := os.RemoveAll(filepath.Join(s.options.Dir, name)); err != nil {
			return fmt.Errorf("reset data directory: %w", err)
		}
	}
	if err := syncDir(s.options.Dir); err != nil {
		return err
	}
	return s.Update(func(i *Identity) { i.Resetting = false })
}
