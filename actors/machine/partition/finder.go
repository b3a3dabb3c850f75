package partition

import (
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"queen/raftlog/command"
	"queen/store/layout"
)

// finder confirms proposals of the index against stored hashes. Asked in rising order it reads every page, row and chunk
// once.
type finder struct {
	log *log
	// at is where the walk through the current stretch stands, last the append that it gave out last.
	stretch stretch
	last    Append
	hashes  []byte
	row     hashRow
}

// stored returns the hash and the stamp of a message; found is false when nothing is known of it any more.
func (f *finder) stored(offset uint64) (hash []byte, stampMicros uint64, found bool, err error) {
	if offset < f.log.head.LogStart {
		found, err = f.seekRow(offset)
		if !found || err != nil {
			return nil, 0, false, err
		}
		return f.row.hash(offset), f.row.stamp(offset), true, nil
	}
	if err = f.seekAppend(offset); err != nil {
		return nil, 0, false, err
	}
	if f.hashes == nil {
		if f.hashes, err = hashesOf(f.log.r, &f.last); err != nil {
			return nil, 0, false, err
		}
	}
	at := (offset - f.last.Base) * hashBytes
	return f.hashes[at : at+hashBytes], f.last.StampMicros, true, nil
}

func (f *finder) seekAppend(offset uint64) (err error) {
	if f.last.Base <= offset && offset < f.last.End() {
		return nil
	}
	if offset < f.stretch.refs.base || offset >= f.stretch.end {
		if f.stretch, err = f.log.stretchAt(offset); err != nil {
			return err
		}
	}
	f.hashes = nil
	for {
		more, err := f.stretch.refs.next(&f.last)
		if err != nil || !more {
			return fmt.Errorf("find append of offset %d: %w (%v)", offset, ErrBadPage, err)
		}
		if offset < f.last.End() {
			return nil
		}
	}
}

func (f *finder) seekRow(offset uint64) (bool, error) {
	if f.row.base <= offset && offset < f.row.end() {
		return true, nil
	}
	known := &f.log.head.hashes
	if known.rows == 0 || offset < known.floor {
		return false, nil
	}
	var failure error
	err := f.log.r.ScanReverse(layout.HashesOf(f.log.partition), layout.Hashes(f.log.partition, offset),
		func(key, value []byte) bool {
			f.row, failure = decodeHashRow(layout.LastNumber(key), value)
			return false
		})
	if err == nil {
		err = failure
	}
	if err != nil {
		return false, fmt.Errorf("seek hash row of offset %d: %w", offset, err)
	}
	return f.row.base <= offset && offset < f.row.end(), nil
}

// ids returns the ids of messages at strictly rising offsets, all of which stored has confirmed.
func (f *finder) ids(offsets []uint64) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, 0, len(offsets))
	for len(ids) < len(offsets) {
		offset := offsets[len(ids)]
		if offset < f.log.head.LogStart {
			if found, err := f.seekRow(offset); err != nil || !found {
				return nil, fmt.Errorf("find id of offset %d: %w (%v)", offset, ErrBadHashes, err)
			}
			ids = append(ids, f.row.id(offset))
			continue
		}
		if err := f.seekAppend(offset); err != nil {
			return nil, err
		}
		a := f.last
		err := forEachMessage(f.log.r, &a, func(place uint32, m *command.Message) (bool, error) {
			if a.Base+uint64(place) == offsets[len(ids)] {
				ids = append(ids, m.ID)
			}
			return len(ids) < len(offsets) && offsets[len(ids)] < a.End(), nil
		})
		if err != nil {
			return nil, fmt.Errorf("read ids of append %d: %w", a.Base, err)
		}
	}
	return ids, nil
}

// nowhere as acceptFrom makes the stamp alone decide.
const nowhere = math.MaxUint64

// search looks for the first confirmed proposal of a trail that is stamped at or after oldestMicros or stands at or above
// acceptFrom.
type search struct {
	entry        uint32
	trail        trail
	oldestMicros uint64
	acceptFrom   uint64

	proposal    uint64
	found       bool
	stampMicros uint64
}

// run carries out searches for entries of set. It goes in rounds, each in rising order, so that no order of questions
// makes it read a large append over and over.
func (f *finder) run(set *hashSet, searches []search) error {
	open := make([]*search, len(searches))
	for i := range searches {
		open[i] = &searches[i]
	}
	for {
		open = slices.DeleteFunc(open, func(s *search) bool {
			var ok bool
			s.proposal, ok = s.trail.next()
			return !ok
		})
		if len(open) == 0 {
			return nil
		}
		slices.SortFunc(open, func(a, b *search) int {
			switch {
			case a.proposal < b.proposal:
				return -1
			case a.proposal > b.proposal:
				return 1
			}
			return int(a.entry) - int(b.entry)
		})
		kept := open[:0]
		for _, s := range open {
			done, err := f.judge(set, s)
			if err != nil {
				return err
			}
			if !done {
				kept = append(kept, s)
			}
		}
		open = kept
	}
}

// judge looks at the proposal of a search; done tells that the search is over.
func (f *finder) judge(set *hashSet, s *search) (done bool, err error) {
	hash, stamp, known, err := f.stored(s.proposal)
	if err != nil || !known {
		return false, err
	}
	if stamp < s.oldestMicros && s.proposal < s.acceptFrom {
		// Stamps fall with the offsets, so nothing further down can be accepted.
		return s.trail.falling, nil
	}
	if !equalHash(hash, set.at(s.entry)) {
		return false, nil
	}
	s.found, s.stampMicros = true, stamp
	return true, nil
}
