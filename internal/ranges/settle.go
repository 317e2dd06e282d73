package ranges

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// errHeld is what a settlement gets whose range another transaction has kept locked: it may be repeated.
var errHeld = errors.New("ledger: another transaction holds the message's range: not settled, try again")

// settling is one call of Settle, or a flush.
type settling struct {
	owner *Owner
	in    []ledger.Settlement
	whole []ledger.StretchDone
	out   []error // of in, then of whole
	by    map[Log]*logSave
	logs  []*logSave
	place []saving
	marks []mark
	rows  []int        // settlements that their rows decide about, once what is in place was written; ascending
	again map[int]bool // those of rows that hold already, if no row knows their token
	wrote bool         // the ledger has changed
}

// saving is a settlement that waits for its range to be written.
type saving struct {
	item int
	log  *logSave
	of   uint64
}

// mark is an offset of which a settlement says something new.
type mark struct {
	of  *open
	log Log
	at  Span
}

// logSave is what is written of one log.
type logSave struct {
	*held
	log    Log
	tokens []uint64
	saved  []Saved
	locked bool
	lost   []uint64
	change Change
}

// Settle implements [ledger.Owner].
func (o *Owner) Settle(ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
	o.mu.Lock()
	plain := len(o.logs) == 0
	o.mu.Unlock()
	if plain {
		return o.Store.Settle(ctx, settlements)
	}
	c := &settling{owner: o, in: settlements, out: make([]error, len(settlements)), by: map[Log]*logSave{}}
	err := c.saveAll(ctx)
	if err == nil {
		err = c.settleRows(ctx)
	}
	if err != nil {
		return nil, storage.MarkPartly(c.wrote, err)
	}
	return c.out, nil
}

// saveAll settles what lies in ranges.
func (c *settling) saveAll(ctx context.Context) error {
	o, logs := c.owner, c.check()
	if err := o.saves.take(ctx, logs); err != nil {
		return fmt.Errorf("ledger: the settlements were not sent: %w", err)
	}
	defer o.saves.give(logs)
	o.mu.Lock()
	for i := range c.in {
		if c.out[i] == nil {
			c.sort(i)
		}
	}
	for k := range c.whole {
		c.sortWhole(k)
	}
	o.mu.Unlock()
	err := c.save(ctx)
	if err != nil && !c.wrote && !ledger.Unknown(err) {
		o.mu.Lock()
		defer o.mu.Unlock()
		c.unmark(func(Log) bool { return true })
	}
	return err
}

// check says in which logs that this owner knows there is something to settle, in the order of turns. What lies in none of
// them now is of no range.
func (c *settling) check() (logs []Log) {
	o := c.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	add := func(t ledger.Ticket) {
		if log, _ := SplitSum(t.Sum()); o.logs[log] != nil && (len(logs) == 0 || logs[len(logs)-1] != log) {
			logs = append(logs, log)
		}
	}
	for i := range c.in {
		if c.out[i] = checks.Settlement(&c.in[i], o.limits); c.out[i] == nil {
			add(c.in[i].Ticket)
		}
	}
	for k := range c.whole {
		add(c.whole[k].Ticket)
	}
	return sortLogs(logs)
}

// sort finds out whether a settlement is of a range, and notes there what it says. The owner is locked.
func (c *settling) sort(i int) {
	s := &c.in[i]
	log, offset := SplitSum(s.Ticket.Sum())
	h := c.owner.logs[log]
	if h == nil || s.Ticket.IsMismatch() {
		c.rows = append(c.rows, i)
		return
	}
	r := h.open[s.Ticket.Token()]
	if r == nil || !r.Has(offset) {
		if p, ok := h.past[s.Ticket.Token()]; ok && p.span.Has(offset) && !p.moved.Has(offset) {
			c.repeat(i, p.back.Has(offset))
		}
		c.rows = append(c.rows, i)
		return
	}
	if c.marks == nil {
		c.marks, c.place = make([]mark, 0, len(c.in)-i), make([]saving, 0, len(c.in)-i)
	}
	one := Span{offset, offset + 1}
	if !r.Done.Has(offset) && !r.Back.Has(offset) {
		c.marks = append(c.marks, mark{of: r, log: log, at: one})
	}
	switch {
	case r.moved.Has(offset):
		c.rows = append(c.rows, i)
	case r.Done.Has(offset) || r.Back.Has(offset):
		c.repeat(i, r.Back.Has(offset))
		c.rows = append(c.rows, i)
	case s.Kind == ledger.Succeed && s.Result == nil && !h.doubt.Has(offset):
		r.Done.Add(one)
		r.dirty = true
	case s.Kind == ledger.Release && !s.Count && s.After == 0 && !h.doubt.Has(offset):
		r.Back.Add(one)
		r.Messages--
		c.owner.counts.back(1)
		r.dirty, r.gave = true, true
	default:
		r.Done.Add(one)
		r.moved.Add(one)
		r.leaving = append(r.leaving, Row{Offset: offset, Fingerprint: cmp.Or(s.Fingerprint, r.print(offset))})
		r.dirty, r.inTx = true, true // its InTx may be at its end just now
		c.rows = append(c.rows, i)
	}
	if r.dirty {
		l := c.touch(h, log, r.Token)
		c.place = append(c.place, saving{i, l, r.Token})
	}
}

// Lost says of a message that it is not the owner's any more.
func Lost(t ledger.Ticket) error {
	return fmt.Errorf("%w: message %x, token %d", ledger.ErrLost, t.Sum(), t.Token())
}

// touch notes that a range is to be written.
func (c *settling) touch(h *held, log Log, token uint64) *logSave {
	l := c.by[log]
	if l == nil {
		l = &logSave{held: h, log: log}
		c.by[log] = l
		c.logs = append(c.logs, l)
	}
	if r := h.open[token]; r != nil {
		r.opened.altered = true
	}
	if n := len(l.tokens); n == 0 || l.tokens[n-1] != token && !slices.Contains(l.tokens, token) {
		l.tokens = append(l.tokens, token)
	}
	return l
}

// save writes the ranges that were touched.
func (c *settling) save(ctx context.Context) error {
	if err := c.close(ctx); err != nil || len(c.logs) == 0 {
		return err
	}
	o := c.owner
	o.quiet(ctx, c.logs)
	slices.SortFunc(c.logs, func(a, b *logSave) int { return bytes.Compare(a.log[:], b.log[:]) })
	queries := make([]Query, len(c.logs))
	o.mu.Lock()
	c.moved()
	for i, l := range c.logs {
		queries[i] = Query{Info: l.info, Tokens: l.tokens}
		for _, token := range l.tokens {
			r := l.open[token]
			if r == nil {
				l.saved = append(l.saved, Saved{Token: token, Known: true})
				continue
			}
			l.saved = append(l.saved, Saved{Token: token, Done: r.Done.Clone(), Back: r.Back.Clone(),
				Messages: r.Messages, Rows: slices.Clone(r.leaving), Known: r.known})
			r.known = r.known || r.over()
			queries[i].Alone = queries[i].Alone || r.gave || len(r.leaving) > 0
		}
	}
	o.mu.Unlock()
	err := o.Update(ctx, queries, func(i int, f *Facts) Change {
		l := c.logs[i]
		l.locked = f.Locked
		l.change, l.lost = Save(f, l.saved)
		return l.change
	})
	if err != nil {
		return err
	}
	c.wrote = true
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range c.logs {
		if l.note() {
			o.ripe.Add(1)
		}
	}
	c.unmark(func(log Log) bool { return c.by[log] != nil && c.by[log].locked })
	c.answer()
	return nil
}

// unmark takes back what the settlements of these logs say of their ranges: nothing of it was written, and the next ones may
// say something else. The owner is locked.
func (c *settling) unmark(these func(Log) bool) {
	for _, m := range c.marks {
		if !these(m.log) {
			continue
		}
		if m.of.Back.Has(m.at.From) {
			m.of.Messages++
			c.owner.counts.back(-1)
		}
		m.of.Done.Remove(m.at)
		m.of.Back.Remove(m.at)
		m.of.moved.Remove(m.at)
		m.of.leaving = slices.DeleteFunc(m.of.leaving, func(r Row) bool { return r.Offset == m.at.From })
	}
}

// close writes ranges that are over the short way, as far as the store has one.
func (c *settling) close(ctx context.Context) error {
	o := c.owner
	store, ok := o.Store.(Closer)
	if !ok || len(c.logs) == 0 {
		return nil
	}
	var closings []Closing
	var of []*logSave
	o.mu.Lock()
	for _, l := range c.logs {
		if r := l.open[l.tokens[0]]; r != nil && len(l.tokens) == 1 && r.fits(l.tail) {
			closings = append(closings, Closing{Log: l.log, Token: r.Token, Segment: l.tail.From, Range: r.Span,
				Messages: r.Messages, Window: r.Window})
			of = append(of, l)
			r.known = true
		}
	}
	o.mu.Unlock()
	if len(closings) == 0 {
		return nil
	}
	closed, err := store.Close(ctx, closings)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, l := range of {
		if !closed[i] {
			l.tail = Span{}
			continue
		}
		c.wrote = true
		l.tail.To = closings[i].Range.To
		l.close(closings[i].Token)
		l.tokens = nil
	}
	c.logs = slices.DeleteFunc(c.logs, func(l *logSave) bool { return len(l.tokens) == 0 })
	return nil
}

// fits says whether the range is over, all of it finished and written by nobody yet, and right behind tail.
func (r *open) fits(tail Span) bool {
	return tail.Len() > 0 && tail.To == r.From && r.Done.Covers(r.Span) && r.Back.Empty() && !r.inTx && len(r.leaving) == 0
}

// note takes over what was written of a log, and says whether a range that is over is there still. The owner is locked.
func (l *logSave) note() (ripe bool) {
	if l.locked {
		return false
	}
	for _, s := range l.change.Put {
		if !s.Rows {
			l.tail = s.Span
		}
	}
	for _, token := range l.tokens {
		r := l.open[token]
		switch {
		case r == nil:
		case slices.Contains(l.lost, token):
			delete(l.open, token)
		case slices.ContainsFunc(l.change.Alter, func(a Range) bool { return a.Token == token }):
			r.dirty, r.gave, r.leaving = false, false, nil
			ripe = ripe || r.over()
		default: // closed, now or before
			l.close(token)
		}
	}
	return ripe
}

// ticket is that of a settlement, or of the first record of a stretch.
func (c *settling) ticket(item int) ledger.Ticket {
	if k := item - len(c.in); k >= 0 {
		return c.whole[k].Ticket
	}
	return c.in[item].Ticket
}
