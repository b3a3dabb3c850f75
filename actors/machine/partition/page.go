package partition

import (
	"encoding/binary"
	"fmt"
)

const (
	pageVersion = 1
	// pageHeaderBytes: version, lowest bucket, messages, first stamp, last stamp.
	pageHeaderBytes = 1 + 4 + 4 + 8 + 8
)

// page is a run of references that has left the head. Its range never changes: when retention has removed a part of it,
// the log start says so.
type page struct {
	base, end             uint64
	firstStamp, lastStamp uint64
	// bucket is the lowest bucket that the page referred to when it was written. It never falls from page to page, which is
	// how the pages of a bucket are found.
	bucket uint32
	refs   []byte
}

func (p *page) references() references {
	return references{base: p.base, stamp: p.firstStamp, rest: p.refs}
}

// encode returns the stored form of the page.
func (p *page) encode() []byte {
	row := make([]byte, 0, pageHeaderBytes+len(p.refs))
	row = append(row, pageVersion)
	row = binary.BigEndian.AppendUint32(row, p.bucket)
	row = binary.BigEndian.AppendUint32(row, uint32(p.end-p.base))
	row = binary.BigEndian.AppendUint64(row, p.firstStamp)
	row = binary.BigEndian.AppendUint64(row, p.lastStamp)
	return append(row, p.refs...)
}

// decodePage reads the page that was stored under a base offset. Its references alias row. Errors wrap ErrBadPage.
func decodePage(base uint64, row []byte) (page, error) {
	f := fields{rest: row}
	if version := f.octet(); f.failed || version != pageVersion {
		return page{}, fmt.Errorf("read page %d of version %d: %w", base, version, ErrBadPage)
	}
	p := page{base: base, bucket: f.uint32()}
	count := f.uint32()
	p.firstStamp, p.lastStamp, p.refs = f.uint64(), f.uint64(), f.rest
	p.end = base + uint64(count)
	if f.failed || count == 0 || p.end < base || p.lastStamp < p.firstStamp {
		return page{}, fmt.Errorf("read page header %d: %w", base, ErrBadPage)
	}
	return p, nil
}

// appends decodes all references of the page.
func (p *page) appends() ([]Append, error) {
	var list []Append
	var a Append
	walk := p.references()
	for {
		more, err := walk.next(&a)
		if err != nil {
			return nil, fmt.Errorf("read page %d: %w: %w", p.base, err, ErrBadPage)
		}
		if !more {
			break
		}
		list = append(list, a)
	}
	if walk.base != p.end || walk.stamp != p.lastStamp {
		return nil, fmt.Errorf("read page %d: references end at %d: %w", p.base, walk.base, ErrBadPage)
	}
	if list[0].StampMicros != p.firstStamp {
		return nil, fmt.Errorf("read page %d: its first append has the stamp %d: %w", p.base, list[0].StampMicros, ErrBadPage)
	}
	return list, nil
}
