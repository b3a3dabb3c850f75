package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"queen/store/layout"
)

// Imported is what Import has built.
type Imported struct {
	Index, Term uint64
	StateHash   string // hex, as in the manifest
}

// stagedName is the directory below the staging directory in which an import is built.
const stagedName = "store"

// Import builds a store from the parts of an export that lie in staging, with its manifest, and brings it to the disk. It
// touches nothing else: Activate puts it in place. Everything is checked: parts, rows and chunks by their checksums, the
// buckets against the accounting in the rows, all rows against the hash of the state. An error that wraps ErrImport or
// ErrCorrupt says that the parts are of no use. meta is given back by Installed after the activation. Of options, Dir is
// not used. It may be called again after an error.
func Import(ctx context.Context, staging string, meta []byte, options Options) (Imported, error) {
	options.Dir = filepath.Join(staging, stagedName)
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return Imported{}, err
	}
	imported, err := runImport(ctx, staging, meta, options)
	if err != nil {
		return Imported{}, fmt.Errorf("import %s: %w", staging, err)
	}
	return imported, nil
}

func runImport(ctx context.Context, staging string, meta []byte, options Options) (Imported, error) {
	manifest, err := ReadManifest(staging)
	if err != nil {
		return Imported{}, err
	}
	plan, err := manifest.plan()
	if err != nil {
		return Imported{}, err
	}
	if err := os.RemoveAll(options.Dir); err != nil {
		return Imported{}, fmt.Errorf("remove what an earlier import left: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(options.Dir, bucketsName), 0o755); err != nil {
		return Imported{}, fmt.Errorf("create directory: %w", err)
	}
	i := &importer{
		ctx:     ctx,
		staging: staging,
		opts:    options,
		at:      mark{manifest.Index, manifest.Term},
		hash:    newStateHash(),
		rows:    make(map[uint32]bucketRow),
	}
	if err := i.buildMain(plan.main); err != nil {
		return Imported{}, err
	}
	sum := i.hash.sum()
	if hash := hex.EncodeToString(sum[:]); hash != manifest.StateHash || i.hash.rows != manifest.Rows {
		return Imported{}, fmt.Errorf("%w: %d rows with hash %s, the manifest says %d with %s",
			ErrImport, i.hash.rows, hash, manifest.Rows, manifest.StateHash)
	}
	if applied := i.applied; applied.index != i.at.index || applied.term != i.at.term {
		return Imported{}, fmt.Errorf("%w: the rows are those after entry %d of term %d, the manifest says %d of %d",
			ErrImport, applied.index, applied.term, i.at.index, i.at.term)
	}
	for _, bucket := range plan.buckets {
		if err := i.buildBucket(bucket); err != nil {
			return Imported{}, fmt.Errorf("bucket %d: %w", bucket.id, err)
		}
	}
	for id := range i.rows {
		return Imported{}, fmt.Errorf("%w: the state refers to bucket %d, which did not come", ErrImport, id)
	}
	imported := Imported{Index: i.at.index, Term: i.at.term, StateHash: manifest.StateHash}
	return imported, i.seal(imported, meta)
}

// importer builds one store.
type importer struct {
	ctx     context.Context
	staging string
	opts    Options // Dir is where the store is built
	at      mark
	hash    *stateHash
	applied appliedRow
	rows    map[uint32]bucketRow // buckets that the state refers to and that are still to be built
}

// note keeps the rows that the store itself understands.
func (i *importer) note(key, value []byte) (err error) {
	switch {
	case string(key) == string(i.hash.applied):
		i.applied, err = decodeAppliedRow(value)
	case key[0] == layout.FamilyBucket && len(key) == len(layout.Bucket(0)):
		i.rows[uint32(layout.LastNumber(key))], err = decodeBucketRow(value)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// check is asked between pieces of work.
func (i *importer) check() error {
	if err := context.Cause(i.ctx); err != nil {
		return err
	}
	return checkFree(i.opts.Dir, i.opts.ReserveBytes)
}

// frames visits the frames of a part.
func (i *importer) frames(part Part, visit func(key, value []byte) error) error {
	data, err := readBounded(filepath.Join(i.staging, part.Name), part.Bytes)
	if err != nil {
		return err
	}
	if err := part.matches(int64(len(data)), sha256.Sum256(data)); err != nil {
		return err
	}
	for len(data) > 0 {
		key, value, rest, err := nextFrame(data)
		if err == nil {
			err = visit(key, value)
		}
		if err != nil {
			return fmt.Errorf("part %s: %w", part.Name, err)
		}
		data = rest
	}
	return nil
}

// seal brings the store to the disk and says that it is whole.
func (i *importer) seal(imported Imported, meta []byte) error {
	if err := syncTree(i.opts.Dir, i.opts.synced); err != nil {
		return err
	}
	if err := writeInstalled(i.opts.Dir, imported, meta); err != nil {
		return err
	}
	if err := writeDurable(i.opts.Dir, i.at, true); err != nil {
		return err
	}
	i.opts.synced(filepath.Join(i.opts.Dir, installedFile))
	i.opts.synced(filepath.Join(i.opts.Dir, durableFile))
	if err := syncDir(i.staging); err != nil {
		return err
	}
	i.opts.Faults(FaultStaged)
	return nil
}
