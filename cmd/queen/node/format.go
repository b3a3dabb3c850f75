package node

import (
	"errors"
	"fmt"

	"queen/actors/machine/membership"
	"queen/cmd/queen/version"
	"queen/store"
)

// errNewerFormat is why this build does not start with the state of a cluster that has been raised to a format it does not read.
var errNewerFormat = errors.New("start a build that reads it")

// checkFormat looks which format the cluster of a state writes, before anything else is read of the state and before the log is
// opened (cluster 15.2): what stands there may mean something else than this build takes it for.
func checkFormat(state *store.Store) error {
	view := state.View()
	defer view.Close()
	found, err := membership.Load(view)
	if err != nil {
		return err
	}
	if found.Format > version.Format {
		return fmt.Errorf("this build reads format %d, and the cluster this store belongs to writes format %d: %w",
			version.Format, found.Format, errNewerFormat)
	}
	return nil
}
