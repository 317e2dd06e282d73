package dynamodb

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/driver"
)

// blockName marks a block of a log that has, or had, rows.
func blockName(key driver.Key) name {
	place, _ := placeOf(key)
	return name{placeBlocks + place[1:9], place[9:]}
}

// marksMost bounds how many marks of blocks are remembered.
const marksMost = 1 << 14

// mark marks blocks that are about to have rows.
func (s *store) mark(ctx context.Context, blocks []name) error {
	var requests []types.WriteRequest
	s.mu.Lock()
	slices.SortFunc(blocks, name.compare)
	blocks = slices.Compact(blocks)
	for _, b := range blocks {
		if !s.blocks[b] {
			requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: b.key()}})
		}
	}
	s.mu.Unlock()
	if len(requests) == 0 {
		return nil
	}
	if err := s.writeRequests(ctx, requests); err != nil {
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
	for b, err := range t.all(t.ctx, &query{place: placeBlocks + string(id[:]), from: first, to: last}) {
		if err != nil {
			return nil, err
		}
		place := placeMessages + string(id[:]) + nameOf(b).sort
		for i, err := range t.all(t.ctx, &query{place: place, start: kindMessage, keys: true}) {
			if err != nil {
				return nil, err
			}
			if _, offset := driver.SplitKey(keyOf(nameOf(i))); span.Has(offset) {
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
		if c := t.cells[messageName(driver.JoinKey(id, offset))]; c != nil && c.put {
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
	for b, err := range t.all(t.ctx, &query{place: placeBlocks + string(id[:])}) {
		if err != nil {
			return all, expiry, err
		}
		for i, err := range t.all(t.ctx, &query{place: placeMessages + string(id[:]) + nameOf(b).sort, start: kindMessage}) {
			if err != nil {
				return all, expiry, err
			}
			_, offset := driver.SplitKey(keyOf(nameOf(i)))
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
