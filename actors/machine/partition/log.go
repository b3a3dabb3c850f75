package partition

import (
	"fmt"

	"queen/store/layout"
)

// log reads the references of a partition. It lives for one call; memo survives in the machine.
type log struct {
	r         Reader
	partition uint64
	head      *Head
	memo      *pageMemo
}

// pageMemo remembers the page that was read last, because readers go on where they stopped. It saves a seek and never
// changes what is found.
type pageMemo struct{ base, end uint64 }

// stretch is a run of references: a page, or the ones inside the head.
type stretch struct {
	base, end uint64
	inPage    bool
	page      page
	refs      references
}

// stretchAt returns the stretch that holds an offset of [LogStart, Tail).
func (l *log) stretchAt(offset uint64) (stretch, error) {
	if offset < l.head.LogStart || offset >= l.head.Tail {
		return stretch{}, fmt.Errorf("find offset %d in [%d, %d): %w", offset, l.head.LogStart, l.head.Tail, ErrBadRange)
	}
	if offset >= l.head.inlineBase {
		return stretch{base: l.head.inlineBase, end: l.head.Tail, refs: l.head.inlineReferences()}, nil
	}
	p, err := l.pageAt(offset)
	if err != nil {
		return stretch{}, err
	}
	return stretch{base: p.base, end: p.end, inPage: true, page: p, refs: p.references()}, nil
}

// pageAt returns the page that holds an offset of [LogStart, inlineBase).
func (l *log) pageAt(offset uint64) (page, error) {
	guess, guessed := uint64(0), true
	switch {
	case l.memo.base <= offset && offset < l.memo.end:
		guess = l.memo.base
	case l.memo.end == offset && offset > l.head.LogStart:
		guess = offset
	case offset == l.head.LogStart:
		guess = l.head.frontPage
	default:
		guessed = false
	}
	if guessed {
		row, err := l.r.Get(layout.Page(l.partition, guess))
		if err != nil {
			return page{}, fmt.Errorf("get page %d: %w", guess, err)
		}
		if row != nil {
			return l.usePage(offset, guess, row)
		}
	}
	return l.seekPage(offset)
}

func (l *log) seekPage(offset uint64) (page, error) {
	var base uint64
	var row []byte
	err := l.r.ScanReverse(layout.PagesOf(l.partition), layout.Page(l.partition, offset), func(key, value []byte) bool {
		base, row = layout.LastNumber(key), value
		return false
	})
	if err != nil {
		return page{}, fmt.Errorf("seek page of offset %d: %w", offset, err)
	}
	if row == nil {
		return page{}, fmt.Errorf("seek page of offset %d: %w", offset, ErrMissingPage)
	}
	return l.usePage(offset, base, row)
}

func (l *log) usePage(offset, base uint64, row []byte) (page, error) {
	p, err := decodePage(base, row)
	if err != nil {
		return page{}, err
	}
	if offset < p.base || offset >= p.end {
		return page{}, fmt.Errorf("find offset %d in page [%d, %d): %w", offset, p.base, p.end, ErrMissingPage)
	}
	*l.memo = pageMemo{base: p.base, end: p.end}
	return p, nil
}

// ascend visits the appends that hold offsets of [from, end), oldest first, until visit returns false. from is raised to
// the log start and end lowered to the tail. What visit receives is valid as long as the reader is.
func (l *log) ascend(from, end uint64, visit func(a *Append) (bool, error)) error {
	at, end := max(from, l.head.LogStart), min(end, l.head.Tail)
	for at < end {
		s, err := l.stretchAt(at)
		if err != nil {
			return err
		}
		var a Append
		for {
			more, err := s.refs.next(&a)
			if err != nil {
				return fmt.Errorf("walk references: %w: %w", err, ErrBadPage)
			}
			if !more {
				break
			}
			if a.End() <= at {
				continue
			}
			if a.Base >= end {
				return nil
			}
			if more, err = visit(&a); !more || err != nil {
				return err
			}
		}
		if s.refs.base != s.end {
			return fmt.Errorf("references end at %d in place of %d: %w", s.refs.base, s.end, ErrBadPage)
		}
		at = s.end
	}
	return nil
}

// descend visits the appends that hold offsets of [from, end), newest first, until visit returns false.
func (l *log) descend(from, end uint64, visit func(a *Append) (bool, error)) error {
	from, end = max(from, l.head.LogStart), min(end, l.head.Tail)
	for end > from {
		s, err := l.stretchAt(end - 1)
		if err != nil {
			return err
		}
		var list []Append
		var a Append
		for {
			more, err := s.refs.next(&a)
			if err != nil {
				return fmt.Errorf("walk references: %w: %w", err, ErrBadPage)
			}
			if !more {
				break
			}
			if a.Base < end && a.End() > from {
				list = append(list, a)
			}
		}
		for i := len(list) - 1; i >= 0; i-- {
			if more, err := visit(&list[i]); !more || err != nil {
				return err
			}
		}
		end = s.base
	}
	return nil
}

// appendAt returns the append that holds an offset of [LogStart, Tail).
func (l *log) appendAt(offset uint64) (found Append, err error) {
	err = l.ascend(offset, offset+1, func(a *Append) (bool, error) {
		found = *a
		return false, nil
	})
	if err == nil && found.Count == 0 {
		err = fmt.Errorf("find append of offset %d: %w", offset, ErrBadRange)
	}
	return found, err
}

// firstAppendAt returns the first retained append that is stamped at or after stampMicros.
func (l *log) firstAppendAt(stampMicros uint64) (found Append, ok bool, err error) {
	h := l.head
	if h.Segments == 0 || stampMicros > h.LastStampMicros {
		return Append{}, false, nil
	}
	from := h.LogStart
	switch {
	case stampMicros <= h.OldestStampMicros:
	case !h.hasPages() || stampMicros > h.pageStamp:
		from = h.inlineBase
	default:
		p, err := l.firstPageAt(stampMicros)
		if err != nil {
			return Append{}, false, err
		}
		from = max(p.base, h.LogStart)
	}
	err = l.ascend(from, h.Tail, func(a *Append) (bool, error) {
		if a.StampMicros < stampMicros {
			return true, nil
		}
		found, ok = *a, true
		return false, nil
	})
	return found, ok, err
}

// firstPageAt returns the first page that holds a stamp at or after stampMicros; there must be one.
func (l *log) firstPageAt(stampMicros uint64) (page, error) {
	p, found, err := l.firstPage(func(p *page) bool { return p.lastStamp >= stampMicros })
	if err == nil && !found {
		err = fmt.Errorf("find page of stamp %d: %w", stampMicros, ErrMissingPage)
	}
	return p, err
}

// firstPage returns the first page for which reached is true; it must be false up to some page and true from there on. It
// looks near the remembered page first, because answers move on slowly, and halves the rest.
func (l *log) firstPage(reached func(p *page) bool) (first page, found bool, err error) {
	low, high := l.head.LogStart, l.head.inlineBase
	probe := low
	if l.memo.base >= low && l.memo.base < high {
		probe = l.memo.base
	}
	for steps := 0; low < high; steps++ {
		p, err := l.pageAt(probe)
		if err != nil {
			return page{}, false, err
		}
		next := p.end
		if reached(&p) {
			first, found, high = p, true, p.base
			next = max(p.base, low+1) - 1
		} else {
			low = p.end
		}
		if steps > 0 || next < low || next >= high {
			next = low + (high-low)/2
		}
		probe = next
	}
	return first, found, nil
}
