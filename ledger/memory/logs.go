package memory

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger/driver"
)

// rangeLog is one log at one leader epoch.
type rangeLog struct {
	driver.Log
	segments []driver.Segment // ascending
	open     map[uint64]*driver.Range
}

func (t *tx) Log(id driver.LogID) (*driver.Log, error) {
	g := t.logs[id]
	if g == nil {
		return nil, nil
	}
	out := g.Log
	return &out, nil
}

func (t *tx) PutLog(g *driver.Log) error { t.log(g.Info.Log).Log = *g; return nil }

// log returns a log, and makes it if it is not there.
func (t *tx) log(id driver.LogID) *rangeLog {
	g := t.logs[id]
	if g == nil {
		g = &rangeLog{open: map[uint64]*driver.Range{}}
		t.logs[id] = g
	}
	return g
}

func (t *tx) LogFloor() (uint64, error) { return t.floor, nil }

func (t *tx) DropLog(id driver.LogID) error {
	t.floor = max(t.floor, t.logs[id].Token)
	delete(t.logs, id)
	return nil
}

func (t *tx) Logs(from driver.LogID, n int) (page []driver.Log, err error) {
	for id, g := range t.logs {
		if bytes.Compare(id[:], from[:]) >= 0 {
			page = append(page, g.Log)
		}
	}
	slices.SortFunc(page, func(a, b driver.Log) int { return bytes.Compare(a.Log[:], b.Log[:]) })
	return page[:min(n, len(page))], nil
}

func (t *tx) Ranges(id driver.LogID, span driver.Span, tokens []uint64) (list []driver.Range, err error) {
	g := t.logs[id]
	if g == nil {
		return nil, nil
	}
	for _, r := range g.open {
		if driver.Wanted(r.Span, r.Token, span, tokens) {
			list = append(list, copied(r))
		}
	}
	return list, nil
}

func copied(r *driver.Range) driver.Range {
	out := *r
	out.Done, out.Back = r.Done.Clone(), r.Back.Clone()
	return out
}

func (t *tx) PutRange(id driver.LogID, r *driver.Range) error {
	kept := copied(r)
	t.log(id).open[r.Token] = &kept
	return nil
}

func (t *tx) DropRange(id driver.LogID, token uint64) error {
	delete(t.log(id).open, token)
	return nil
}

func byFrom(s driver.Segment, from int64) int { return cmp.Compare(s.From, from) }

func (t *tx) Segments(id driver.LogID, span driver.Span) (list []driver.Segment, err error) {
	g := t.logs[id]
	if g == nil {
		return nil, nil
	}
	first, _ := slices.BinarySearchFunc(g.segments, span.From, func(s driver.Segment, at int64) int { return cmp.Compare(s.To, at) })
	for _, s := range g.segments[first:] {
		if s.From > span.To {
			break
		}
		list = append(list, s)
	}
	return list, nil
}

func (t *tx) PutSegment(id driver.LogID, s *driver.Segment) error {
	g := t.log(id)
	i, _ := slices.BinarySearchFunc(g.segments, s.From, byFrom)
	g.segments = slices.Insert(g.segments, i, *s)
	return nil
}

func (t *tx) DropSegment(id driver.LogID, from int64) error {
	g := t.log(id)
	if i, ok := slices.BinarySearchFunc(g.segments, from, byFrom); ok {
		g.segments = slices.Delete(g.segments, i, i+1)
	}
	return nil
}

func (t *tx) Trim(scope, name string, at int64, before time.Time) error {
	for _, g := range t.logs {
		if g.Scope == scope && g.Name == name {
			g.segments = slices.DeleteFunc(g.segments, func(s driver.Segment) bool { return s.To <= at && s.Until.Before(before) })
		}
	}
	return nil
}

func (t *tx) Rows(id driver.LogID, _ driver.Span) func(int64) (bool, error) {
	return func(offset int64) (bool, error) { return t.rows.get(driver.JoinKey(id, offset)) != nil, nil }
}

// Next implements [driver.Reader]: it does not know.
func (t *tx) Next(_ driver.LogID, from, _ int64) (int64, error) { return from, nil }

func (t *tx) Extent(id driver.LogID) (all driver.Span, expiry time.Time, err error) {
	latest := time.Duration(0)
	for key, at := range t.rows.at {
		log, offset := driver.SplitKey(key)
		if log != id {
			continue
		}
		if all.Len() == 0 {
			all = driver.Span{From: offset, To: offset + 1}
		}
		all = driver.Span{From: min(all.From, offset), To: max(all.To, offset+1)}
		latest = max(latest, t.rows.row(at).expiry)
	}
	return all, t.begin.Add(latest), nil
}
