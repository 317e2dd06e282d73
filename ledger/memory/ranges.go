package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// foldAfter is how long the row of a message that a range covers stays once it has succeeded: as long as anybody may
// settle it again.
const foldAfter = 10 * time.Minute

// rangeLog is one log at one leader epoch.
type rangeLog struct {
	info     ranges.Info
	version  uint64
	token    uint64
	top      int64
	start    ranges.Start
	segments []ranges.Segment // ascending
	open     map[uint64]*openRange
}

type openRange struct {
	ranges.Range
	owner *owner
}

var _ ranges.Store = (*owner)(nil)

// Open implements [ranges.Store].
func (o *owner) Open(ctx context.Context, openings []ranges.Opening) ([]bool, error) {
	opened := make([]bool, len(openings))
	l := o.ledger
	err := l.do(ctx, Claim, func() error {
		if o.fate != live {
			return ledger.ErrLost
		}
		now := l.now()
		for i := range openings {
			if g := l.logs[openings[i].Log]; g != nil && g.version == openings[i].Version {
				o.change(g, &openings[i].Change, now)
				opened[i] = true
			}
		}
		l.sweepSome(now, 2*len(openings))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// Update implements [ranges.Store].
func (o *owner) Update(ctx context.Context, queries []ranges.Query, plan func(int, *ranges.Facts) ranges.Change) error {
	l := o.ledger
	op := Claim
	if len(queries) > 0 && len(queries[0].Tokens) > 0 {
		op = Settle
	}
	return l.do(ctx, op, func() error {
		if o.fate != live {
			return ledger.ErrLost
		}
		now := l.now()
		for i := range queries {
			q := &queries[i]
			g := l.logs[q.Info.Log]
			if g == nil {
				g = l.newLog(q.Info, now)
			}
			if q.First > 0 {
				l.trim(q.Info, q.First, now)
				g.start.Note(q.First, now)
			}
			facts := o.facts(g, q, now)
			change := plan(i, &facts)
			o.change(g, &change, now)
		}
		return nil
	})
}

// newLog makes a log, in which the rows that are there already stay rows. The ledger is locked.
func (l *Ledger) newLog(info ranges.Info, now time.Time) *rangeLog {
	g := &rangeLog{info: info, token: l.token, open: map[uint64]*openRange{}}
	l.logs[info.Log] = g
	there := ranges.Segment{Rows: true, Since: now, Until: now}
	for sum, at := range l.rows.at {
		log, offset := ranges.SplitSum(sum)
		if log != info.Log {
			continue
		}
		if there.Len() == 0 {
			there.Span = ranges.Span{From: offset, To: offset + 1}
		}
		there.From, there.To = min(there.From, offset), max(there.To, offset+1)
		if expiry := l.begin.Add(l.rows.row(at).expiry); expiry.After(there.Expiry) {
			there.Expiry = expiry
		}
	}
	if there.Len() > 0 {
		g.top, g.segments = there.To, []ranges.Segment{there}
	}
	return g
}

// facts is what a plan has to know. The ledger is locked.
func (o *owner) facts(g *rangeLog, q *ranges.Query, now time.Time) ranges.Facts {
	f := ranges.Facts{Now: now, Version: g.version, Token: g.token, Top: g.top}
	hull := q.Span
	for token, r := range g.open {
		if !slices.Contains(q.Tokens, token) && !r.Meets(q.Span) {
			continue
		}
		seen := r.Range
		seen.Done, seen.Back = r.Done.Clone(), r.Back.Clone()
		seen.Holder, seen.HeldFor = o.holds(r.owner, now)
		f.Ranges = append(f.Ranges, seen)
		if hull.Len() == 0 {
			hull = r.Span
		}
		hull = ranges.Span{From: min(hull.From, r.From), To: max(hull.To, r.To)}
	}
	slices.SortFunc(f.Ranges, func(a, b ranges.Range) int { return cmp.Compare(a.Token, b.Token) })
	from, _ := slices.BinarySearchFunc(g.segments, hull.From, func(s ranges.Segment, at int64) int { return cmp.Compare(s.To, at) })
	for _, s := range g.segments[from:] {
		if s.From > hull.To {
			break
		}
		f.Segments = append(f.Segments, s)
	}
	f.HasRow = func(offset int64) bool { return o.ledger.rows.get(ranges.JoinSum(g.info.Log, offset)) != nil }
	return f
}

// holds tells whose a range is.
func (o *owner) holds(holder *owner, now time.Time) (ledger.Holder, time.Duration) {
	switch {
	case holder == o:
		return ledger.Mine, 0
	case holder.fate == left:
		return ledger.Left, 0
	case holder.fate == dead:
		return ledger.Dead, 0
	}
	return ledger.Live, holder.end.Sub(now)
}

// change writes what was planned. The ledger is locked.
func (o *owner) change(g *rangeLog, c *ranges.Change, now time.Time) {
	l := o.ledger
	g.version, g.token, g.top = c.Version, c.Token, c.Top
	for _, r := range c.Rows {
		o.addRow(g, r)
	}
	for _, r := range c.Alter {
		g.open[r.Token].Range = r
	}
	for _, token := range c.Close {
		if r := g.open[token]; r != nil {
			delete(g.open, token)
			r.owner.rows--
			l.rows.forget(r.owner)
		}
	}
	for _, r := range c.Open {
		r.Done, r.Back = r.Done.Clone(), r.Back.Clone()
		if r.At.IsZero() {
			r.At = now
		}
		g.open[r.Token] = &openRange{Range: r, owner: o}
		o.rows++
	}
	g.put(c.Drop, c.Put)
}

// put replaces segments.
func (g *rangeLog) put(drop []int64, put []ranges.Segment) {
	byFrom := func(s ranges.Segment, from int64) int { return cmp.Compare(s.From, from) }
	for _, from := range drop {
		if i, ok := slices.BinarySearchFunc(g.segments, from, byFrom); ok {
			g.segments = slices.Delete(g.segments, i, i+1)
		}
	}
	for _, s := range put {
		i, _ := slices.BinarySearchFunc(g.segments, s.From, byFrom)
		g.segments = slices.Insert(g.segments, i, s)
	}
}

// addRow makes a row of a message that leaves its range.
func (o *owner) addRow(g *rangeLog, row ranges.Row) {
	l := o.ledger
	sum := ranges.JoinSum(g.info.Log, row.Offset)
	if l.rows.get(sum) != nil {
		return
	}
	r := l.rows.add(sum, &ledger.Entry{
		Key:         ledger.Key{Scope: g.info.Scope, ID: g.id(row.Offset)},
		Fingerprint: row.Fingerprint,
	})
	r.state, r.token, r.covered = ledger.Pending, row.Token, !row.Nobody
	r.at, r.expiry = row.At.Sub(l.begin), row.Expiry.Sub(l.begin)
	if !l.some || r.expiry < l.first {
		l.first, l.some = r.expiry, true
	}
	if !row.Nobody {
		l.rows.own(r, g.open[row.Token].owner)
	}
}

// trim drops segments below a log's first offset, in all of its epochs. A segment of the last hour stays: what lies in it
// may be in a slow worker's hands.
func (l *Ledger) trim(info ranges.Info, first int64, now time.Time) {
	for _, g := range l.logs {
		if g.info.Scope == info.Scope && g.info.Name == info.Name {
			g.segments = slices.DeleteFunc(g.segments, func(s ranges.Segment) bool {
				return s.To <= first && now.Sub(s.Until) > ranges.TrimAfter
			})
		}
	}
}

// fenced says whether an InTx may commit its part of a range. The ledger is locked.
func (o *owner) fenced(f *ranges.Fenced) bool {
	g := o.ledger.logs[f.Log]
	if g == nil {
		return false
	}
	r := g.open[f.Token]
	if r == nil || r.owner != o {
		return false
	}
	for _, s := range f.Offsets.Spans() {
		for at := s.From; at < s.To; at++ {
			if !r.Has(at) || r.Done.Has(at) || r.Back.Has(at) {
				return false
			}
		}
	}
	return true
}

// commit writes an InTx's successes into their range; a result needs a row.
func (o *owner) commitRange(f *ranges.Fenced, a *ledger.Attempt, now time.Time) {
	l := o.ledger
	g := l.logs[f.Log]
	r := g.open[f.Token]
	tickets := a.Tickets()
	for _, i := range f.Items {
		if result := a.ResultAt(i); result != nil {
			sum := tickets[i].Sum()
			_, offset := ranges.SplitSum(sum)
			o.addRow(g, ranges.Row{Offset: offset, Token: f.Token, At: r.At, Expiry: r.At.Add(r.Window)})
			l.finish(sum, l.rows.get(sum), now, &ledger.Settlement{Kind: ledger.Succeed, Result: result})
		}
	}
	r.Done.AddAll(f.Offsets)
}

// find reads what ranges know of a message. The ledger is locked.
func (l *Ledger) find(log ranges.Log, offset int64, rec *ledger.Record) bool {
	g := l.logs[log]
	if g == nil {
		return false
	}
	var nobody owner
	f := nobody.facts(g, &ranges.Query{Span: ranges.Span{From: offset, To: offset + 1}}, l.now())
	if !ranges.Find(&f, offset, rec) {
		return false
	}
	rec.Scope, rec.ID = g.info.Scope, g.id(offset)
	for i := range f.Ranges {
		if r := &f.Ranges[i]; rec.State == ledger.Pending && r.Token == rec.Token {
			rec.Owner = g.open[r.Token].owner.id
		}
	}
	return true
}
