package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// exportPart is the part of an export that is being read. Its SHA-256 is taken of the bytes as they are read, so that a
// file is read once.
type exportPart struct {
	name   string
	size   int64
	source io.ReaderAt
	file   *os.File // nil when it lies in memory
	hash   hash.Hash
	hashed int64 // bytes from the beginning that are in hash
}

func newExportPart(name string, data []byte) *exportPart {
	return &exportPart{name: name, size: int64(len(data)), source: bytes.NewReader(data), hash: sha256.New()}
}

func openExportPart(name, path string) (*exportPart, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open part %s: %w", name, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look at part %s: %w", name, err), file.Close())
	}
	return &exportPart{name: name, size: info.Size(), source: file, file: file, hash: sha256.New()}, nil
}

func (p *exportPart) readAt(to []byte, offset int64) (int, error) {
	n, err := p.source.ReadAt(to, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read part %s: %w", p.name, err)
	}
	if end := offset + int64(n); offset <= p.hashed && p.hashed < end {
		p.hash.Write(to[p.hashed-offset : n])
		p.hashed = end
	}
	return n, err
}

// sum reads what nobody has read yet.
func (p *exportPart) sum() ([32]byte, error) {
	rest := io.NewSectionReader(p.source, p.hashed, p.size-p.hashed)
	n, err := io.Copy(p.hash, rest)
	p.hashed += n
	if err == nil && p.hashed != p.size {
		err = fmt.Errorf("it ends after %d of %d bytes", p.hashed, p.size)
	}
	if err != nil {
		return [32]byte{}, fmt.Errorf("read part %s: %w", p.name, err)
	}
	return [32]byte(p.hash.Sum(nil)), nil
}

func (p *exportPart) close() error {
	if p.file == nil {
		return nil
	}
	if err := p.file.Close(); err != nil {
		return fmt.Errorf("close part %s: %w", p.name, err)
	}
	return nil
}
