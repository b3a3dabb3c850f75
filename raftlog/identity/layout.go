package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// directoryFormat is the newest directory format that this build reads, and the one that it writes.
const directoryFormat = 1

// Layout is the content of layout.json. It never changes.
type Layout struct {
	// Format is the directory format.
	Format int `json:"format"`
	// Groups is the QUEEN_RAFT_GROUPS of the first start.
	Groups int `json:"groups"`
	// CreatedAtMs is when the directory was made, in ms since the Unix epoch.
	CreatedAtMs int64 `json:"createdAtMs"`
	// Build is the version that made it.
	Build string `json:"build"`
}

// openLayout reads layout.json, and writes it in a directory that has no identity yet.
func (s *Store) openLayout() error {
	path := filepath.Join(s.options.Dir, layoutFile)
	err := ReadRecord(path, &s.layout)
	switch {
	case errors.Is(err, os.ErrNotExist) && s.fresh:
		s.layout = Layout{
			Format: directoryFormat, Groups: s.options.Groups, CreatedAtMs: s.options.NowMs(), Build: s.options.Build,
		}
		return WriteRecord(path, &s.layout)
	case errors.Is(err, os.ErrNotExist):
		return s.withRemedy(fmt.Errorf("%w: %s is missing, but %s exists", ErrDamaged, path, s.path))
	case err != nil:
		return s.withRemedy(err)
	case s.layout.Format > directoryFormat:
		return fmt.Errorf("%w: this build reads directory format %d, %s is of format %d, made by %s: start a newer build",
			ErrNewerFormat, directoryFormat, path, s.layout.Format, s.layout.Build)
	case s.layout.Groups != s.options.Groups:
		return fmt.Errorf("%w: %s says %d, QUEEN_RAFT_GROUPS is %d: it is fixed at the first start",
			ErrGroups, path, s.layout.Groups, s.options.Groups)
	}
	return nil
}
