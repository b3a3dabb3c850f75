package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Manifest describes an export. It is its last part, so that nothing has to be read before the first part can go.
type Manifest struct {
	Format int    `json:"format"`
	Index  uint64 `json:"index"` // the state is that after this entry
	Term   uint64 `json:"term"`
	Rows   uint64 `json:"rows"`
	// StateHash is that of Store.StateHash, in hex.
	StateHash string `json:"stateHash"`
	// Parts are all others, in the order in which they come: main, then the buckets by rising number.
	Parts []Part `json:"parts"`
}

// Part is one file of an export.
type Part struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex
}

const (
	// ManifestName is the name of the part that lists all others.
	ManifestName = "manifest.json"
	// manifestFormat is that of the manifest, of the names of parts and of frames.
	manifestFormat = 1
	// MaxExportParts bounds the parts of an export: some 10 TB in full buckets.
	MaxExportParts = 1 << 19
	// maxManifestBytes holds so many parts.
	maxManifestBytes = MaxExportParts * 192
)

// The names of parts: all lie in one directory, and none can lead out of it.
const (
	mainPartName   = "main-%08d"
	blocksPartName = "bucket-%08d-blocks-%08d"
	filePartName   = "bucket-%08d-file-%s"
)

var (
	mainPartPattern   = regexp.MustCompile(`^main-(\d{8})$`)
	blocksPartPattern = regexp.MustCompile(`^bucket-(\d{8})-blocks-(\d{8})$`)
	filePartPattern   = regexp.MustCompile(`^bucket-(\d{8})-file-(.+)$`)
	// bucketFilePattern matches the files of a sealed bucket that travel: not the mark, which the receiver sets, and not the
	// discard statistics, which are a megabyte of zeros and made anew.
	bucketFilePattern = regexp.MustCompile(`^(MANIFEST|KEYREGISTRY|\d{6,10}\.(sst|vlog))$`)
)

// bucketParts are the parts of one bucket: either blocks or the files of a sealed bucket.
type bucketParts struct {
	id     uint32
	blocks []Part
	files  map[string]Part // by the name within the bucket
}

// exportPlan is the content of a manifest, understood.
type exportPlan struct {
	main    []Part
	buckets []bucketParts
}

func number(digits string) uint32 {
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("BUG: %q matched a pattern of eight digits: %v", digits, err))
	}
	return uint32(n)
}

// plan checks a manifest, which comes from another node, and sorts its parts.
func (m *Manifest) plan() (exportPlan, error) {
	var plan exportPlan
	switch {
	case m.Format != manifestFormat:
		return plan, fmt.Errorf("%w: the manifest has format %d, this program reads %d", ErrImport, m.Format, manifestFormat)
	case m.Index == 0:
		return plan, fmt.Errorf("%w: the manifest has no index", ErrImport)
	case len(m.Parts) > MaxExportParts:
		return plan, fmt.Errorf("%w: %d parts, at most %d are allowed", ErrImport, len(m.Parts), MaxExportParts)
	}
	for _, part := range m.Parts {
		if err := plan.add(part); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

func (p *exportPlan) add(part Part) error {
	if match := mainPartPattern.FindStringSubmatch(part.Name); match != nil {
		if len(p.buckets) > 0 || int(number(match[1])) != len(p.main)+1 {
			return fmt.Errorf("%w: part %s is out of order", ErrImport, part.Name)
		}
		p.main = append(p.main, part)
		return checkPartBytes(part, maxFramePartBytes)
	}
	if match := blocksPartPattern.FindStringSubmatch(part.Name); match != nil {
		bucket, err := p.bucket(number(match[1]), part)
		if err != nil {
			return err
		}
		if len(bucket.files) > 0 || int(number(match[2])) != len(bucket.blocks)+1 {
			return fmt.Errorf("%w: part %s is out of order", ErrImport, part.Name)
		}
		bucket.blocks = append(bucket.blocks, part)
		return checkPartBytes(part, maxFramePartBytes)
	}
	if match := filePartPattern.FindStringSubmatch(part.Name); match != nil && bucketFilePattern.MatchString(match[2]) {
		bucket, err := p.bucket(number(match[1]), part)
		if err != nil {
			return err
		}
		if _, twice := bucket.files[match[2]]; twice || len(bucket.blocks) > 0 {
			return fmt.Errorf("%w: part %s is out of order", ErrImport, part.Name)
		}
		bucket.files[match[2]] = part
		return checkPartBytes(part, maxBucketFileBytes)
	}
	return fmt.Errorf("%w: part %q has a name that nothing stands for", ErrImport, part.Name)
}

// maxBucketFileBytes is more than the value log of the largest bucket.
const maxBucketFileBytes = maxBucketBytes + MaxBlockBytes + 2*vlogHeadroomBytes

func checkPartBytes(part Part, most int64) error {
	if part.Bytes < 0 || part.Bytes > most {
		return fmt.Errorf("%w: part %s has %d bytes, at most %d are allowed", ErrImport, part.Name, part.Bytes, most)
	}
	return nil
}

// bucket is the bucket of a part: the newest, or one with a higher number.
func (p *exportPlan) bucket(id uint32, part Part) (*bucketParts, error) {
	if n := len(p.buckets); n > 0 && p.buckets[n-1].id >= id {
		if p.buckets[n-1].id > id {
			return nil, fmt.Errorf("%w: part %s is out of order", ErrImport, part.Name)
		}
		return &p.buckets[n-1], nil
	}
	p.buckets = append(p.buckets, bucketParts{id: id, files: make(map[string]Part)})
	return &p.buckets[len(p.buckets)-1], nil
}

// ReadManifest reads the manifest of an export whose parts lie in dir.
func ReadManifest(dir string) (*Manifest, error) {
	content, err := readBounded(filepath.Join(dir, ManifestName), maxManifestBytes)
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return nil, fmt.Errorf("%w: decode %s: %w", ErrImport, filepath.Join(dir, ManifestName), err)
	}
	if _, err := m.plan(); err != nil {
		return nil, err
	}
	return &m, nil
}

func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: open part: %w", ErrImport, err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("%w: read %s: %w", ErrImport, path, err)
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrImport, path, most)
	}
	return content, nil
}

// VerifyPart compares the file of a part in dir with what the manifest says of it.
func VerifyPart(dir string, part Part) error {
	if part.Name != filepath.Base(part.Name) {
		return fmt.Errorf("%w: part %q is not the name of a file", ErrImport, part.Name)
	}
	path := filepath.Join(dir, part.Name)
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: open part: %w", ErrImport, err)
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	if err != nil {
		return fmt.Errorf("%w: read %s: %w", ErrImport, path, err)
	}
	return part.matches(n, [32]byte(hash.Sum(nil)))
}

// matches compares what was found with what the manifest says.
func (p *Part) matches(size int64, sum [32]byte) error {
	if found := hex.EncodeToString(sum[:]); size != p.Bytes || found != p.SHA256 {
		return fmt.Errorf("%w: part %s has %d bytes with SHA-256 %s, the manifest says %d with %s",
			ErrImport, p.Name, size, found, p.Bytes, p.SHA256)
	}
	return nil
}
