package memory

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger/driver"
)

// logs holds the logs, each at one leader epoch.
type logs map[driver.LogID]*log

// log is one of them. Until its head is written it is none yet.
type log struct {
	driver.Log
	segments []driver.Segment // ascending
	open     map[uint64]*open
}

// open is a range with its sets as other stores keep them, so that what is said of ranges here holds there.
type open struct {
	driver.Range
	done, back []byte
}

// log is a log that there is, or one that nothing is known of. A transaction asks for the same one many times in a row.
func (t *tx) log(id driver.LogID) *log {
	if t.last == nil || t.lastID != id {
		t.last, t.lastID = t.logs[id], id
	}
	if t.last == nil {
		return &log{}
	}
	return t.last
}

// made is a log that is there from now on.
func (t *tx) made(id driver.LogID) *log {
	if g := t.log(id); t.last != nil {
		return g
	}
	t.last = &log{open: map[uint64]*open{}}
	t.logs[id] = t.last
	return t.last
}

func (t *tx) Log(id driver.LogID) (*driver.Log, error) {
	g := t.log(id)
	if g.Log.Log != id {
		return nil, nil
	}
	head := g.Log
	return &head, nil
}

func (t *tx) PutLog(g *driver.Log) error { t.made(g.Log).Log = *g; return nil }

func (t *tx) LogFloor() (uint64, error) { return t.floor, nil }

func (t *tx) DropLog(id driver.LogID) error {
	t.floor = max(t.floor, t.log(id).Token)
	delete(t.logs, id)
	t.last = nil
	return nil
}

func (t *tx) Logs(from driver.LogID, n int) (page []driver.Log, err error) {
	for id, g := range t.logs {
		if g.Log.Log == id && bytes.Compare(id[:], from[:]) >= 0 {
			page = append(page, g.Log)
		}
	}
	slices.SortFunc(page, func(a, b driver.Log) int { return bytes.Compare(a.Log[:], b.Log[:]) })
	return page[:min(n, len(page))], nil
}

func (t *tx) Ranges(to []driver.Range, id driver.LogID, span driver.Span, tokens []uint64) (_ []driver.Range, err error) {
	g := t.log(id)
	take := func(o *open) {
		r, failed := o.read()
		to, err = append(to, r), errors.Join(err, failed)
	}
	if span.Len() > 0 {
		for _, o := range g.open {
			if driver.Wanted(o.Span, o.Token, span, tokens) {
				take(o)
			}
		}
		return to, err
	}
	for _, token := range tokens {
		if o := g.open[token]; o != nil {
			take(o)
		}
	}
	return to, err
}

// read is a range with its sets.
func (o *open) read() (r driver.Range, err error) {
	r = o.Range
	if r.Done, err = driver.DecodeSet(o.done, r.From); err != nil {
		return r, err
	}
	r.Back, err = driver.DecodeSet(o.back, r.From)
	return r, err
}

func (t *tx) PutRange(id driver.LogID, r *driver.Range) error {
	g := t.made(id)
	o := g.open[r.Token]
	if o == nil {
		o = &open{}
		g.open[r.Token] = o
	}
	*o = open{Range: *r, done: r.Done.Encode(r.From), back: r.Back.Encode(r.From)}
	o.Done, o.Back = driver.Set{}, driver.Set{}
	return nil
}

func (t *tx) DropRange(id driver.LogID, token uint64) error {
	delete(t.log(id).open, token)
	return nil
}

func byFrom(s driver.Segment, from int64) int { return cmp.Compare(s.From, from) }

func (t *tx) Segments(to []driver.Segment, id driver.LogID, span driver.Span) ([]driver.Segment, error) {
	segments := t.log(id).segments
	first, _ := slices.BinarySearchFunc(segments, span.From, func(s driver.Segment, at int64) int { return cmp.Compare(s.To, at) })
	end := first
	for end < len(segments) && segments[end].From <= span.To {
		end++
	}
	return append(to, segments[first:end]...), nil
}

func (t *tx) PutSegment(id driver.LogID, s *driver.Segment) error {
	g := t.made(id)
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
