package items

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// A list of messages is a scan of the table, in the order of the hashes of its places. A mark is the name of the last item.

const (
	// endMark is behind all items.
	endMark driver.Mark = "end"
	// scanMost is how many items a page looks at.
	scanMost = 1000
	// sweepMost is how many messages a page of the sweep looks at: they all may go, and leave their past, in one transaction.
	sweepMost = 45
)

func markOf(last Name) driver.Mark {
	if last == (Name{}) {
		return endMark
	}
	b, err := json.Marshal([2][]byte{[]byte(last.Place), []byte(last.Sort)})
	if err != nil {
		return endMark // bytes have no way to fail
	}
	return driver.Mark(b)
}

// scan reads the next page of all messages and steps; nothing else is in it.
func (s *Store) scan(ctx context.Context, behind driver.Mark, fresh bool, most int) (items []Item, last driver.Mark, err error) {
	if behind == endMark {
		return nil, endMark, nil
	}
	ask := Scan{Place: placeMessages, Sorts: []string{kindMessage, kindStep}, Fresh: fresh, Most: most}
	if behind != "" {
		var n [2][]byte
		if err := json.Unmarshal([]byte(behind), &n); err != nil {
			return nil, "", fmt.Errorf("a mark of a list: %w", err)
		}
		ask.Behind = Name{string(n[0]), string(n[1])}
	}
	items, end, err := s.table.Scan(ctx, ask)
	if err != nil {
		return nil, "", err
	}
	return items, markOf(end), nil
}

// LastMessage implements [driver.Lists]: where a scan ends is known when it is there.
func (t *tx) LastMessage() (driver.Mark, error) { return endMark, nil }

// Messages implements [driver.Lists].
func (t *tx) Messages(behind, _ driver.Mark, _ *ledger.Filter) (page []driver.Message, last driver.Mark, err error) {
	items, last, err := t.scan(t.ctx, behind, false, scanMost)
	for _, i := range items {
		if NameOf(i).Sort[0] != kindMessage[0] {
			continue
		}
		m, err := decodeMessage(i)
		if err != nil {
			return nil, "", err
		}
		page = append(page, *m)
	}
	return page, last, err
}

// SweepMessages implements [driver.Tx]. Steps whose messages the table has removed go on the way. A page that ends in the middle of
// the table looked at one row at least, or it would be the last one.
func (t *tx) SweepMessages(behind, until driver.Mark, n int) (page driver.Swept, err error) {
	for page.Last = behind; page.Looked == 0 && page.Last != endMark && page.Last != until; {
		items, last, err := t.scan(t.ctx, page.Last, true, min(n, sweepMost))
		if err != nil {
			return page, err
		}
		page.Last = last
		var steps []Name
		for _, i := range items {
			page.Looked++
			if NameOf(i).Sort[0] == kindStep[0] {
				steps = append(steps, NameOf(i))
				continue
			}
			m, err := decodeMessage(t.saw(i).is)
			if err != nil {
				return page, err
			}
			page.Rows = append(page.Rows, *m)
		}
		if err := t.orphans(t.ctx, steps); err != nil {
			return page, err
		}
	}
	return page, nil
}

// SweepArchive implements [driver.Tx]: what the table has not removed by itself, of a page of one shard after the other. The index may
// still have what was there before a delivery was filed anew, so what seems to be over is read. Of one that was purged the chunks go as
// well: whoever purged it may not have come to that.
func (t *tx) SweepArchive(behind driver.Mark, n int, before time.Time) (last driver.Mark, looked, removed int64, err error) {
	shard, from := 0, ""
	if behind != "" {
		shard, from = int(behind[0]), string(behind[1:])+"\x00"
	}
	for ; shard < shards; shard, from = shard+1, "" {
		q := Query{Place: string([]byte{'d', byte(shard)}), From: from, Index: Dead}
		list, err := t.collect(t.ctx, q, min(n, t.bounds.Set/2))
		if err != nil {
			return behind, 0, 0, err
		}
		var over []Name
		for _, i := range list {
			last = driver.Mark(append([]byte{byte(shard)}, getBytes(i, attrMoment)...))
			if getTime(i, attrExpiry).Before(before) || i[attrPurged].Kind == KindNumber {
				over = append(over, NameOf(i))
			}
		}
		there := map[Name]Item{}
		if err := t.fetch(t.ctx, over, there); err != nil {
			return behind, 0, 0, err
		}
		gone, err := t.archivesOver(there, before)
		if err != nil {
			return behind, 0, 0, err
		}
		if len(list) > 0 {
			return last, int64(len(list)), gone, nil
		}
	}
	return behind, 0, 0, nil
}

// archivesOver removes those of archived deliveries whose time is over, and chunks of the purged ones. It says how many deliveries go.
func (t *tx) archivesOver(list map[Name]Item, before time.Time) (gone int64, err error) {
	for n, i := range list {
		if i == nil {
			continue
		}
		a, stored, err := decodeArchive(i)
		if err != nil {
			return 0, err
		}
		if !a.Purged.IsZero() && stored.Chunks > 0 {
			if err := t.table.Put(t.ctx, stored.blanks(a, n)); err != nil {
				return 0, err
			}
			stored.Chunks = 0
			if err := writeArchive(t.saw(i), maps.Clone(i), stored, a.Expiry); err != nil {
				return 0, err
			}
		}
		if a.Expiry.Before(before) {
			gone++
			t.saw(i).write(nil)
		}
	}
	return gone, nil
}
