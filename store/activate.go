package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The names that an activation gives to directories beside the store, by which the next start knows how far it came.
// Under newSuffix stands a store that is whole and on the disk; from that rename on, it is the store.
const (
	newSuffix = ".incoming" // takes the place of the store
	oldSuffix = ".replaced" // was the store
)

// Activate puts what Import has built in staging in the place of the store in options.Dir, which must be closed and on
// the same volume. A crash at any point leaves the old store or the new one: the new one from the rename to its name
// beside the store on. After an error it is the next Open that decides. The parts in staging are of no use any more.
func Activate(staging string, options Options) error {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return err
	}
	if err := activate(staging, options); err != nil {
		return fmt.Errorf("activate %s: %w", options.Dir, err)
	}
	return nil
}

func activate(staging string, o Options) error {
	staged := filepath.Join(staging, stagedName)
	record, found, err := readDurable(staged)
	if err != nil {
		return err
	}
	if !found || !record.Clean {
		return fmt.Errorf("%w: nothing whole is staged in %s", ErrImport, staged)
	}
	if err := CompleteActivation(o.Dir); err != nil {
		return err
	}
	if err := move(staged, o.Dir+newSuffix); err != nil {
		return err
	}
	if err := o.failWrite(faultNamedNew); err != nil {
		return err
	}
	return complete(o)
}

// Steps of an activation at which tests of this package stop it.
const (
	faultNamedNew = "activate.named_new"
	faultNamedOld = "activate.named_old"
	faultReplaced = "activate.replaced"
)

// CompleteActivation ends an activation of the store in dir that a crash interrupted. Open calls it.
func CompleteActivation(dir string) error {
	o := Options{Dir: dir}.withDefaults()
	if err := complete(o); err != nil {
		return fmt.Errorf("complete the activation of %s: %w", dir, err)
	}
	return nil
}

func complete(o Options) error {
	newDir, oldDir := o.Dir+newSuffix, o.Dir+oldSuffix
	staged, err := exists(newDir)
	if err != nil {
		return err
	}
	if staged {
		standing, err := exists(o.Dir)
		if err != nil {
			return err
		}
		if standing {
			// A predecessor's predecessor may still lie there in part.
			if err := os.RemoveAll(oldDir); err != nil {
				return fmt.Errorf("remove the old store: %w", err)
			}
			if err := move(o.Dir, oldDir); err != nil {
				return err
			}
		}
		if err := o.failWrite(faultNamedOld); err != nil {
			return err
		}
		if err := move(newDir, o.Dir); err != nil {
			return err
		}
		o.Faults(FaultActivated)
	}
	if err := o.failWrite(faultReplaced); err != nil {
		return err
	}
	if err := os.RemoveAll(oldDir); err != nil {
		return fmt.Errorf("remove the old store: %w", err)
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", path, err)
	}
	return true, nil
}

// move renames a directory and makes both ends of it durable.
func move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("move directory: %w", err)
	}
	return errors.Join(syncDir(filepath.Dir(to)), syncDir(filepath.Dir(from)))
}

// CleanStaging removes everything in a directory of exports and imports: what lies there at a start is the left-over of
// one that was interrupted.
func CleanStaging(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list staging directory: %w", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("remove left-over: %w", err)
		}
	}
	return nil
}
