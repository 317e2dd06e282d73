package items

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger/driver"
)

// blockName marks a block of a log that has, or had, rows.
func blockName(key driver.Key) Name {
	place, _ := placeOf(key)
	return Name{placeBlocks + place[1:9], place[9:]}
}

// marksMost bounds how many marks of blocks are remembered.
const marksMost = 1 << 14

// mark marks blocks that are about to have rows.
func (s *Store) mark(ctx context.Context, blocks []Name) error {
	var marks []Item
	s.mu.Lock()
	slices.SortFunc(blocks, Name.Compare)
	blocks = slices.Compact(blocks)
	for _, b := range blocks {
		if !s.blocks[b] {
			marks = append(marks, b.Item())
		}
	}
	s.mu.Unlock()
	if len(marks) == 0 {
		return nil
	}
	if err := s.table.Put(ctx, marks); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.blocks) > marksMost {
		clear(s.blocks)
	}
	for _, b := range blocks {
		s.blocks[b] = true
	}
	return nil
}

// rowsIn yields the offsets of a span that have rows, in ascending order.
func (t *tx) rowsIn(id driver.LogID, span driver.Span) (offsets []int64, err error) {
	if t.empty[id] {
		return nil, nil
	}
	first := string(binary.BigEndian.AppendUint64(nil, uint64(span.From)>>blockBits))
	last := string(binary.BigEndian.AppendUint64(nil, uint64(span.To-1)>>blockBits+1))
	for b, err := range t.table.Query(t.ctx, Query{Place: placeBlocks + string(id[:]), From: first, To: last}) {
		if err != nil {
			return nil, err
		}
		place := placeMessages + string(id[:]) + NameOf(b).Sort
		for i, err := range t.table.Query(t.ctx, Query{Place: place, Prefix: kindMessage, Names: true}) {
			if err != nil {
				return nil, err
			}
			if _, offset := driver.SplitKey(keyOf(NameOf(i))); span.Has(offset) {
				offsets = append(offsets, offset)
			}
		}
	}
	return offsets, nil
}

// Rows implements [driver.Reader].
func (t *tx) Rows(id driver.LogID, span driver.Span) func(int64) (bool, error) {
	var there []int64
	asked := false
	return func(offset int64) (bool, error) {
		if !asked {
			var err error
			if there, err = t.rowsIn(id, span); err != nil {
				return false, err
			}
			asked = true
		}
		if c := t.cells[MessageName(driver.JoinKey(id, offset))]; c != nil && c.put {
			return c.is != nil, nil
		}
		_, found := slices.BinarySearch(there, offset)
		return found, nil
	}
}

// Extent implements [driver.Reader]. The expiry is that of the rows at both ends, which are found by their blocks.
func (t *tx) Extent(id driver.LogID) (all driver.Span, expiry time.Time, err error) {
	if t.empty[id] {
		return all, expiry, nil
	}
	for b, err := range t.table.Query(t.ctx, Query{Place: placeBlocks + string(id[:])}) {
		if err != nil {
			return all, expiry, err
		}
		for i, err := range t.table.Query(t.ctx, Query{Place: placeMessages + string(id[:]) + NameOf(b).Sort, Prefix: kindMessage}) {
			if err != nil {
				return all, expiry, err
			}
			_, offset := driver.SplitKey(keyOf(NameOf(i)))
			if all.Len() == 0 {
				all = driver.Span{From: offset, To: offset + 1}
			}
			all = driver.Span{From: min(all.From, offset), To: max(all.To, offset+1)}
			if e := getTime(i, attrExpiry); e.After(expiry) {
				expiry = e
			}
		}
	}
	return all, expiry, nil
}
