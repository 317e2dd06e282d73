package driver

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ ranges.Store = (*owner)(nil)

// Open implements ranges.Store.
func (o *owner) Open(ctx context.Context, openings []ranges.Opening) ([]bool, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	o.opens.Store(true)
	opened, call := make([]bool, len(openings)), Call{Op: Claim, Owner: o.id, Logs: make([]LogID, len(openings))}
	for i := range openings {
		call.Logs[i] = openings[i].Log
	}
	busy, err := o.each(ctx, call, func(tx Tx, i int) error {
		opened[i] = false
		g, err := tx.Log(openings[i].Log)
		if err != nil || g == nil || g.Version != openings[i].Version {
			return err
		}
		l := &logTx{tx: tx, me: o.id, g: g}
		if err := l.write(&openings[i].Change); err != nil {
			return err
		}
		opened[i] = true
		return nil
	})
	if err != nil {
		return nil, o.named("opening ranges of", err)
	}
	for i := range busy {
		opened[i] = false
	}
	return opened, nil
}

// Update implements ranges.Store. A log for which there was no lock, or no room, in time is shown to its plan as locked.
func (o *owner) Update(ctx context.Context, queries []ranges.Query, plan func(int, *ranges.Facts) ranges.Change) error {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	call := Call{Op: Claim, Owner: o.id, Logs: make([]LogID, len(queries))}
	for i := range queries {
		if call.Logs[i] = queries[i].Info.Log; len(queries[i].Tokens) > 0 {
			call.Op = Settle
		}
	}
	busy, err := o.each(ctx, call, func(tx Tx, i int) error {
		l := logTxs.Get().(*logTx)
		defer logTxs.Put(l)
		l.reset(tx, o.id)
		if err := l.update(&queries[i], func(f *ranges.Facts) ranges.Change {
			change := plan(i, f)
			if len(change.Open) > 0 {
				o.opens.Store(true)
			}
			return change
		}); err != nil {
			return fmt.Errorf("log %x: %w", queries[i].Info.Log, err)
		}
		return nil
	})
	for i := range busy {
		plan(i, &ranges.Facts{Locked: true})
	}
	return o.named("ranges of", err)
}

// update shows one log to a plan and writes what that says. What the plan is shown is its own until it returns.
func (l *logTx) update(q *ranges.Query, plan func(*ranges.Facts) ranges.Change) error {
	var err error
	if l.g, err = l.tx.Log(q.Info.Log); err == nil && l.g == nil {
		err = l.begin(q.Info)
	}
	if err == nil && q.First > 0 {
		err = l.trim(q)
	}
	if err != nil {
		return err
	}
	facts, err := l.read(q)
	if err != nil {
		return err
	}
	change := plan(facts)
	if l.err != nil {
		return l.err
	}
	return l.write(&change)
}

// logTx is one log in one transaction.
type logTx struct {
	tx    Tx
	me    OwnerID
	g     *Log
	dirty bool // the log's row is to be written
	facts ranges.Facts
	span  Span    // that is asked for
	open  []Range // that were read
	put   Range   // that is written
	has   func(int64) (bool, error)
	err   error // of the look for rows
}

// logTxs are used again: what they have read takes no new memory.
var logTxs = sync.Pool{New: func() any { return &logTx{} }}

// reset begins with another log. It keeps room for lists.
func (l *logTx) reset(tx Tx, me OwnerID) {
	*l = logTx{tx: tx, me: me, open: l.open[:0], facts: ranges.Facts{Ranges: l.facts.Ranges[:0], Segments: l.facts.Segments[:0]}}
}

// begin makes a log, with a version above those that it had if it was dropped: somebody may remember one. The rows that lie in it
// already, from before it had ranges, stay rows.
func (l *logTx) begin(info Info) error {
	floor, err := l.tx.LogFloor()
	if err != nil {
		return err
	}
	now := l.tx.Now()
	l.g, l.dirty = &Log{Info: info, Version: uint64(max(now.UnixMicro(), 0)), Token: floor}, true
	there, expiry, err := l.tx.Extent(info.Log)
	if err != nil || there.Len() == 0 {
		return err
	}
	l.g.Top = there.To
	return l.tx.PutSegment(info.Log, &Segment{Span: there, Rows: true, Since: now, Until: now, Expiry: expiry})
}

// trim drops segments below a log's first offset, in all of its epochs. A segment of the last hour stays: what lies in it
// may be in a slow worker's hands.
func (l *logTx) trim(q *ranges.Query) error {
	now := l.tx.Now()
	l.dirty = l.g.Start.Note(q.First, now) || l.dirty
	return l.tx.Trim(l.g.Scope, q.Info.Name, l.g.Start.Below(now), now.Add(-ranges.TrimAfter))
}

// read reads what a plan has to know.
func (l *logTx) read(q *ranges.Query) (*ranges.Facts, error) {
	f := &l.facts
	*f = ranges.Facts{Now: l.tx.Now(), Version: l.g.Version, Token: l.g.Token, Top: l.g.Top, Ranges: f.Ranges, Segments: f.Segments}
	hull := q.Span
	if err := l.readOpen(q); err != nil {
		return nil, err
	}
	for i := range f.Ranges {
		r := &f.Ranges[i]
		if hull.Len() == 0 {
			hull = r.Span
		}
		hull = Span{From: min(hull.From, r.From), To: max(hull.To, r.To)}
	}
	var err error
	if f.Segments, err = l.tx.Segments(f.Segments, l.g.Log, hull); err != nil {
		return nil, err
	}
	if q.Room && q.Span.To < l.g.Top {
		next, err := l.tx.Next(l.g.Log, q.Span.To, l.g.Top)
		if err != nil {
			return nil, err
		}
		if q.Span.To < next {
			f.Room = Span{From: q.Span.To, To: next}
		}
	}
	l.span, f.HasRow = q.Span, l.hasRow
	return f, nil
}

// hasRow says whether a message of those that are asked for has a row.
func (l *logTx) hasRow(offset int64) bool {
	if l.has == nil {
		l.has = l.tx.Rows(l.g.Log, l.span)
	}
	there, err := l.has(offset)
	if err != nil {
		l.err = err
	}
	return there
}

// readOpen reads ranges, and as plans see them.
func (l *logTx) readOpen(q *ranges.Query) (err error) {
	if l.open, err = l.tx.Ranges(l.open, l.g.Log, q.Span, q.Tokens); err != nil {
		return err
	}
	for i := range l.open {
		r := l.open[i].plan()
		if r.Holder, r.HeldFor, err = holds(l.tx, l.me, l.open[i].Owner); err != nil {
			return err
		}
		l.facts.Ranges = append(l.facts.Ranges, r)
	}
	return nil
}

// owner is whose a range is, of those that were read.
func (l *logTx) owner(token uint64) OwnerID {
	for i := range l.open {
		if l.open[i].Token == token {
			return l.open[i].Owner
		}
	}
	return Nobody
}

// plan is a range as plans have it, whoever holds it.
func (r *Range) plan() ranges.Range {
	return ranges.Range{Span: r.Span, Token: r.Token, Done: r.Done, Back: r.Back, Messages: r.Messages, At: r.At, Window: r.Window}
}

// write writes what was planned.
func (l *logTx) write(c *ranges.Change) error {
	g, tx := l.g, l.tx
	if l.dirty || c.Version != g.Version || c.Token != g.Token || c.Top != g.Top {
		g.Version, g.Token, g.Top = c.Version, c.Token, c.Top
		if err := tx.PutLog(g); err != nil {
			return err
		}
	}
	for i := range c.Rows {
		row := &c.Rows[i]
		if err := insertRow(tx, g, row, l.owner(row.Token)); err != nil {
			return fmt.Errorf("a row for offset %d: %w", row.Offset, err)
		}
	}
	for i := range c.Alter {
		if err := l.putRange(&c.Alter[i], l.owner(c.Alter[i].Token)); err != nil {
			return err
		}
	}
	for _, token := range c.Close {
		if err := tx.DropRange(g.Log, token); err != nil {
			return fmt.Errorf("closing range %d: %w", token, err)
		}
	}
	for i := range c.Open {
		r := c.Open[i]
		r.At = tx.Now() // a plan that was made without a look knows no time
		if err := l.putRange(&r, l.me); err != nil {
			return err
		}
	}
	return l.putSegments(c)
}

func (l *logTx) putRange(r *ranges.Range, owner OwnerID) error {
	l.put = Range{Span: r.Span, Token: r.Token, Owner: owner, Done: r.Done, Back: r.Back, Messages: r.Messages, At: r.At, Window: r.Window}
	if err := l.tx.PutRange(l.g.Log, &l.put); err != nil {
		return fmt.Errorf("writing range %d: %w", r.Token, err)
	}
	return nil
}

func (l *logTx) putSegments(c *ranges.Change) error {
	for _, first := range c.Drop {
		if err := l.tx.DropSegment(l.g.Log, first); err != nil {
			return fmt.Errorf("segment %d: %w", first, err)
		}
	}
	for i := range c.Put {
		if err := l.tx.PutSegment(l.g.Log, &c.Put[i]); err != nil {
			return fmt.Errorf("segment %d: %w", c.Put[i].From, err)
		}
	}
	return nil
}

// insertRow makes a row of a message that leaves its range, unless there is one.
func insertRow(tx Tx, g *Log, row *ranges.Row, owner OwnerID) error {
	m := Message{Key: ranges.JoinSum(g.Log, row.Offset), Scope: g.Scope, ID: g.ID(row.Offset), Fingerprint: row.Fingerprint,
		State: ledger.Pending, Token: row.Token, At: row.At, Expiry: row.Expiry, Covered: !row.Nobody, Logged: true}
	if !row.Nobody {
		m.Owner = owner
	}
	_, err := tx.Insert(&m)
	return err
}

// everything meets all offsets of a log.
var everything = Span{From: 0, To: math.MaxInt64}

// known is what ranges know of a message without a row; nil: nothing. owner is whose it is.
func known(r Reader, key Key) (rec *ledger.Record, owner OwnerID, err error) {
	log, offset := ranges.SplitSum(key)
	g, err := r.Log(log)
	if g == nil || err != nil {
		return nil, Nobody, err
	}
	span := Span{From: offset, To: offset + 1}
	open, err := r.Ranges(nil, log, span, nil)
	if err != nil {
		return nil, Nobody, err
	}
	f := ranges.Facts{}
	for i := range open {
		f.Ranges = append(f.Ranges, open[i].plan())
	}
	if f.Segments, err = r.Segments(nil, log, span); err != nil {
		return nil, Nobody, err
	}
	rec = &ledger.Record{Key: key, Scope: g.Scope, ID: g.ID(offset)}
	if !ranges.Find(&f, offset, rec) {
		return nil, Nobody, nil
	}
	for i := range open {
		if rec.State == ledger.Pending && open[i].Token == rec.Token {
			owner = open[i].Owner
		}
	}
	return rec, owner, nil
}
