package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// foldAfter is how long the row of a message that a range covers stays once it has succeeded: as long as anybody may
// settle it again.
const foldAfter = 10 * time.Minute

// The kinds of segments, as stored.
const (
	kindFinished = 1
	kindRows     = 2
)

var _ ranges.Store = (*owner)(nil)

// Open implements [ranges.Store].
func (o *owner) Open(ctx context.Context, openings []ranges.Opening) ([]bool, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	opened := make([]bool, len(openings))
	err := o.runLive(ctx, len(openings), func(b *batch) error {
		for i := range openings {
			g, err := b.log(openings[i].Log)
			if err != nil {
				return err
			}
			if g == nil || g.version != openings[i].Version {
				continue
			}
			if err := b.change(g, &openings[i].Change); err != nil {
				return err
			}
			opened[i] = true
		}
		return nil
	})
	if errors.Is(err, ErrBusy) {
		return make([]bool, len(openings)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: opening ranges of owner %d: %w", o.id, err)
	}
	return opened, nil
}

// Update implements [ranges.Store]. If the write lock is not free until ctx's deadline, plans see locked logs.
func (o *owner) Update(ctx context.Context, queries []ranges.Query, plan func(int, *ranges.Facts) ranges.Change) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	err := o.runLive(ctx, len(queries), func(b *batch) error {
		for i := range queries {
			if err := b.update(&queries[i], func(f *ranges.Facts) ranges.Change { return plan(i, f) }); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, ErrBusy) {
		for i := range queries {
			plan(i, &ranges.Facts{Locked: true})
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("ledger/sqlite: ranges of owner %d: %w", o.id, err)
	}
	return nil
}

// runLive is run while this owner is live.
func (o *owner) runLive(ctx context.Context, items int, fn func(*batch) error) error {
	return o.run(ctx, items, func(b *batch) error {
		me, err := b.holder(o.id)
		if err == nil && me.fate != fateLive {
			err = ledger.ErrLost
		}
		if err != nil {
			return err
		}
		return fn(b)
	})
}

// update shows one log to a plan and writes what that says.
func (b *batch) update(q *ranges.Query, plan func(*ranges.Facts) ranges.Change) error {
	g, err := b.log(q.Info.Log)
	if err == nil && g == nil {
		g, err = b.newLog(q.Info)
	}
	if err == nil && q.First > 0 {
		err = b.trim(g, q)
	}
	if err != nil {
		return err
	}
	facts, err := b.facts(g, q)
	if err != nil {
		return err
	}
	change := plan(facts)
	if g.err != nil {
		return g.err
	}
	return b.change(g, &change)
}

// rangeLog is one log at one leader epoch, as a transaction sees it.
type rangeLog struct {
	log            ranges.Log
	version, token uint64
	top            int64
	scope          int64
	prefix         string
	owners         map[uint64]int64 // of the ranges that were read, by token
	err            error            // of the look for rows
}

func (g *rangeLog) id(offset int64) []byte { return strconv.AppendInt([]byte(g.prefix), offset, 10) }

// trim drops segments below a log's first offset, in all of its epochs, and notes that offset as [ranges.Start.Note] does.
func (b *batch) trim(g *rangeLog, q *ranges.Query) error {
	before := b.now.Add(-ranges.TrimAfter).UnixMicro()
	_, err := b.exec(b.o.l.stmts.trim, g.scope, []byte(q.Info.Name), q.First, before)
	if err == nil {
		_, err = b.exec(b.o.l.stmts.note, g.log[:], q.First, b.now.UnixMicro(), before)
	}
	return err
}

// change writes what was planned.
func (b *batch) change(g *rangeLog, c *ranges.Change) error {
	if c.Version != g.version || c.Token != g.token || c.Top != g.top {
		if _, err := b.exec(b.o.l.stmts.setLog, g.log[:], int64(c.Version), int64(c.Token), c.Top); err != nil {
			return fmt.Errorf("writing the log: %w", err)
		}
	}
	for i := range c.Rows {
		if err := b.addRow(g, &c.Rows[i]); err != nil {
			return fmt.Errorf("a row for offset %d: %w", c.Rows[i].Offset, err)
		}
	}
	s := &b.o.l.stmts
	for i := range c.Alter {
		r := &c.Alter[i]
		if _, err := b.exec(s.alterRange, g.log[:], int64(r.Token), r.Done.Encode(r.From), r.Back.Encode(r.From), r.Messages); err != nil {
			return fmt.Errorf("writing range %d: %w", r.Token, err)
		}
	}
	for _, token := range c.Close {
		if _, err := b.exec(s.closeRange, g.log[:], int64(token)); err != nil {
			return fmt.Errorf("closing range %d: %w", token, err)
		}
	}
	for i := range c.Open {
		r := &c.Open[i]
		_, err := b.exec(s.openRange, g.log[:], int64(r.Token), r.From, r.To, b.o.id, r.Messages, r.Window.Microseconds(),
			b.now.UnixMicro(), r.Done.Encode(r.From), r.Back.Encode(r.From))
		if err != nil {
			return fmt.Errorf("opening range %d: %w", r.Token, err)
		}
	}
	return b.putSegments(g, c)
}

func (b *batch) putSegments(g *rangeLog, c *ranges.Change) error {
	for _, first := range c.Drop {
		if _, err := b.exec(b.o.l.stmts.dropSegment, g.log[:], first); err != nil {
			return fmt.Errorf("segment %d: %w", first, err)
		}
	}
	for i := range c.Put {
		if err := b.putSegment(g.log, &c.Put[i]); err != nil {
			return fmt.Errorf("segment %d: %w", c.Put[i].From, err)
		}
	}
	return nil
}

func (b *batch) putSegment(log ranges.Log, s *ranges.Segment) error {
	kind := kindFinished
	if s.Rows {
		kind = kindRows
	}
	_, err := b.exec(b.o.l.stmts.putSegment, log[:], s.From, s.To, s.Messages, s.Since.UnixMicro(), s.Until.UnixMicro(),
		s.Expiry.UnixMicro(), kind)
	return err
}

// addRow makes a row of a message that leaves its range, unless there is one.
func (b *batch) addRow(g *rangeLog, row *ranges.Row) error {
	var owner, covered any
	if !row.Nobody {
		owner, covered = g.owners[row.Token], row.Offset
	}
	sum := ranges.JoinSum(g.log, row.Offset)
	_, err := b.exec(b.o.l.stmts.leave, sum[:], g.scope, g.id(row.Offset), row.Fingerprint[:], int64(row.Token), owner,
		row.At.UnixMicro(), row.Expiry.UnixMicro(), covered)
	return err
}
