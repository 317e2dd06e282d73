package ranges

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// claiming is one call of Claim.
type claiming struct {
	owner   *Owner
	entries []ledger.Entry
	out     []ledger.Claim
	logs    []*logClaim
	rows    []int  // entries that their rows decide about
	only    []bool // of rows: see Store.ClaimRows
	firsts  []int  // of entries that have left a range, or nothing, for a row: see ledger.Claim.First
	wrote   bool
	began   time.Time
}

// logClaim is what is asked of one log.
type logClaim struct {
	*held
	log     Log
	asks    []Ask
	window  time.Duration
	first   int64
	ranged  bool // all of asks are
	answers []Answer
	change  Change
}

// Claim implements [ledger.Owner].
func (o *Owner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	claims, err := o.claim(ctx, entries)
	o.counts.add(claims)
	return claims, err
}

func (o *Owner) claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	if !slices.ContainsFunc(entries, func(e ledger.Entry) bool { return e.Key.Pos != nil }) {
		return o.ClaimRows(ctx, entries, nil)
	}
	c := &claiming{owner: o, entries: entries, out: make([]ledger.Claim, len(entries)), began: time.Now()}
	err := c.look(ctx)
	if err == nil {
		err = c.claimRows(ctx)
	}
	if err != nil {
		return nil, storage.MarkPartly(c.wrote, err)
	}
	return c.out, nil
}

// look answers what ranges can answer.
func (c *claiming) look(ctx context.Context) error {
	o, logs := c.owner, c.check()
	if err := o.looks.take(ctx, logs); err != nil {
		return fmt.Errorf("ledger: the claim was not sent: %w", err)
	}
	defer o.looks.give(logs)
	o.flushOf(ctx, logs)
	c.sort()
	if err := c.lean(ctx); err != nil {
		return err
	}
	return c.full(ctx)
}

// check says in which logs entries lie that may be asked for, in the order of turns.
func (c *claiming) check() (logs []Log) {
	for i := range c.entries {
		e := &c.entries[i]
		if c.out[i].Err = checks.Entry(e); c.out[i].Err != nil || e.Key.Pos == nil {
			continue
		}
		if log, _ := SplitSum(e.Key.Sum()); len(logs) == 0 || logs[len(logs)-1] != log {
			logs = append(logs, log)
		}
	}
	return sortLogs(logs)
}

// sort groups the entries by their logs. Those without a position, or bound to rows, need nothing of logs.
func (c *claiming) sort() {
	o := c.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	by := map[Log]*logClaim{}
	var at *logClaim
	for i := range c.entries {
		e := &c.entries[i]
		if c.out[i].Err != nil {
			continue
		}
		if e.Key.Pos == nil {
			c.rows = append(c.rows, i)
			continue
		}
		log, offset := SplitSum(e.Key.Sum())
		if at == nil || at.log != log {
			if at = by[log]; at == nil {
				at = &logClaim{held: o.held(log, e, c.began), log: log, ranged: true, asks: make([]Ask, 0, min(len(c.entries)-i, 1024))}
				by[log] = at
				c.logs = append(c.logs, at)
			}
		}
		ranged, lone := at.suits(e, offset), e.Copy || e.StampToken != 0
		if at.rows.Has(offset) && (!ranged && !lone || at.known && at.token == 0) { // else its row needs a token above the log's
			c.rows = append(c.rows, i)
			continue
		}
		at.ranged = at.ranged && ranged
		at.window, at.first = max(at.window, e.Window), max(at.first, e.Key.Pos.First)
		at.asks = append(at.asks, Ask{Offset: offset, Prev: e.Key.Pos.Prev, Ranged: ranged, Lone: lone, Index: i})
	}
	c.logs = slices.DeleteFunc(c.logs, func(l *logClaim) bool { return len(l.asks) == 0 })
	for _, l := range c.logs {
		byOffset := func(a, b Ask) int { return cmp.Compare(a.Offset, b.Offset) }
		if !slices.IsSortedFunc(l.asks, byOffset) {
			slices.SortStableFunc(l.asks, byOffset)
		}
		l.asks = slices.CompactFunc(l.asks, func(a, b Ask) bool { return a.Offset == b.Offset }) // the second is Busy
	}
	slices.SortFunc(c.logs, func(a, b *logClaim) int { return bytes.Compare(a.log[:], b.log[:]) })
}

// held finds or begins what is known of a log. The owner is locked.
func (o *Owner) held(log Log, e *ledger.Entry, now time.Time) *held {
	if h := o.logs[log]; h != nil {
		h.used = now
		if now.After(h.bound) {
			h.rows = Set{}
		}
		return h
	}
	prefix, ok := prefixOf(e.Key.ID, e.Key.Pos.Offset)
	if !ok {
		prefix = nil
	}
	h := &held{used: now, open: map[uint64]*open{}, past: map[uint64]past{}, info: Info{
		Log: log, Scope: e.Key.Scope, Name: e.Key.Pos.Log, Epoch: e.Key.Pos.Epoch, Prefix: string(prefix),
	}}
	o.logs[log] = h
	return h
}

// hull is from the first ask to the last.
func (l *logClaim) hull() Span { return Span{l.asks[0].Offset, l.asks[len(l.asks)-1].Offset + 1} }

// lean opens ranges in logs that are known, where nothing lies, without a look at them.
func (c *claiming) lean(ctx context.Context) error {
	var lean []*logClaim
	var openings []Opening
	c.owner.mu.Lock()
	for _, l := range c.logs {
		low, fits := floor(l.hull(), l.top, l.room)
		if !l.ranged || !l.known || !fits || l.first > l.held.first {
			continue
		}
		facts := Facts{Version: l.version, Token: l.token, Top: l.top, Room: l.room, HasRow: func(int64) bool { return false }}
		if low > 0 && l.asks[0].Prev+1 < low { // nothing is known of a gap that begins below
			facts.Segments = []Segment{{Span: Span{0, low}}}
		}
		l.answers, l.change = Look(&facts, l.asks, l.window)
		lean = append(lean, l)
		openings = append(openings, Opening{Log: l.log, Version: l.version, Change: l.change})
	}
	c.owner.mu.Unlock()
	if len(lean) == 0 {
		return nil
	}
	opened, err := c.owner.Open(ctx, openings)
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	for i, l := range lean {
		switch {
		case err == nil && opened[i]:
			c.wrote = true
			c.take(l)
		default:
			l.answers, l.known = nil, false
		}
	}
	return err
}

// full looks at the logs that are left.
func (c *claiming) full(ctx context.Context) error {
	release, err := c.alone(ctx)
	if err != nil {
		return err
	}
	defer release()
	var left []*logClaim
	var queries []Query
	for _, l := range c.logs {
		if l.answers != nil {
			continue
		}
		left = append(left, l)
		span := l.hull()
		if prev := l.asks[0].Prev; prev >= 0 { // with the gap before
			span.From = min(span.From, prev+1)
		}
		queries = append(queries, Query{Info: l.info, Span: span, Alone: true, Room: l.ranged, First: l.first})
	}
	if len(left) == 0 {
		return nil
	}
	locked := make([]bool, len(left))
	err = c.owner.Update(ctx, queries, func(i int, f *Facts) Change {
		l := left[i]
		l.answers, l.change = Look(f, l.asks, l.window)
		locked[i] = f.Locked
		return l.change
	})
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	if err != nil {
		for _, l := range left {
			l.known = false
		}
		return err
	}
	c.wrote = true
	for i, l := range left {
		if !locked[i] {
			l.held.first = max(l.held.first, l.first)
			c.take(l)
		}
	}
	return nil
}

// take carries out the answers of one log. The owner is locked.
func (c *claiming) take(l *logClaim) {
	l.learn(&l.change, c.began, l.window)
	c.owner.adopt(l.held, &l.change, l.asks, l.answers, c.entries)
	for i := range l.asks {
		a, out := &l.answers[i], &c.out[l.asks[i].Index]
		l.doubt.Remove(Span{l.asks[i].Offset, l.asks[i].Offset + 1})
		switch a.Verdict {
		case Fresh:
			out.Answer, out.Token, out.Attempt, out.First, out.Ranged = ledger.Run, a.Token, 1, true, true
			out.Ticket = ledger.NewTicket(JoinSum(l.log, l.asks[i].Offset), a.Token)
		case Done:
			out.Answer, out.Outcome.State = ledger.Done, ledger.Succeeded
			c.owner.finished(l.held, l.asks[i].Offset)
		case InRow, ToRow:
			c.toRow(l.asks[i].Index, a.Verdict == InRow)
			if a.First {
				c.firsts = append(c.firsts, l.asks[i].Index)
			}
		default:
			out.Wait, out.Held = a.Wait, a.Held
		}
	}
}

func (c *claiming) toRow(i int, only bool) {
	if only && c.only == nil {
		c.only = make([]bool, len(c.rows), len(c.entries))
	}
	c.rows = append(c.rows, i)
	if c.only != nil {
		for len(c.only) < len(c.rows)-1 {
			c.only = append(c.only, false)
		}
		c.only = append(c.only, only)
	}
}

// complete fills in what an entry has left out.
func complete(e *ledger.Entry) {
	if e.Late != nil {
		e.Fingerprint, e.Delivery = e.Late.Identify()
		e.Late = nil
	}
}

// claimRows asks for what has, or needs, a row.
func (c *claiming) claimRows(ctx context.Context) error {
	if len(c.rows) == 0 {
		return nil
	}
	entries := make([]ledger.Entry, len(c.rows))
	for at, i := range c.rows {
		entries[at] = c.entries[i]
		complete(&entries[at])
	}
	claims, err := c.owner.ClaimRows(ctx, entries, c.only)
	if err != nil {
		return err
	}
	for at, i := range c.rows {
		c.out[i] = claims[at]
	}
	for _, i := range c.firsts {
		c.out[i].First = c.out[i].Answer == ledger.Run
	}
	return nil
}
