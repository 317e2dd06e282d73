package ranges

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ ledger.StretchOwner = (*Owner)(nil)

// stretched is what is opened for the stretches of one log.
type stretched struct {
	*held
	opening Opening
	of      []asking // one for each range of the opening
	asked   []asking // those of a log that is not known
}

// asking is one stretch of a call, and where it begins.
type asking struct {
	*ledger.Stretch
	index  int
	log    Log
	offset int64
}

// placed are the stretches that have a place in a log, and their logs in the order of turns.
func placed(stretches []ledger.Stretch) (all []asking, in []Log) {
	for i := range stretches {
		if e := &stretches[i].First; e.Key.Pos != nil && checks.Entry(e) == nil {
			log, offset := SplitSum(e.Key.Sum())
			all, in = append(all, asking{&stretches[i], i, log, offset}), append(in, log)
		}
	}
	return all, sortLogs(in)
}

// ClaimStretches implements [ledger.StretchOwner]: where nothing lies. Of a log that is not known yet that is seen under its lock.
func (o *Owner) ClaimStretches(ctx context.Context, stretches []ledger.Stretch) ([]uint64, error) {
	tokens, err := o.claimStretches(ctx, stretches)
	for i, token := range tokens { // none where they are asked for again
		if token != 0 {
			o.counts.opened(stretches[i].Messages())
		}
	}
	return tokens, err
}

func (o *Owner) claimStretches(ctx context.Context, stretches []ledger.Stretch) ([]uint64, error) {
	asked, in := placed(stretches)
	if err := o.looks.take(ctx, in); err != nil {
		return nil, fmt.Errorf("ledger: the claim was not sent: %w", err)
	}
	defer o.looks.give(in)
	o.flushOf(ctx, in)
	began, tokens := time.Now(), make([]uint64, len(stretches))
	wrote, err := o.meet(ctx, asked, began, tokens)
	if err != nil {
		return nil, err
	}
	logs := o.stretch(asked, began, tokens)
	if len(logs) == 0 {
		return tokens, nil
	}
	openings := make([]Opening, len(logs))
	for i, l := range logs {
		openings[i] = l.opening
	}
	opened, err := o.Open(ctx, openings)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, l := range logs {
		if err != nil || !opened[i] {
			l.known = false
			continue
		}
		o.opened(l, began, tokens)
	}
	if err != nil {
		return nil, storage.MarkPartly(wrote, err)
	}
	return tokens, nil
}

// opened takes over what was opened for stretches of a log. The owner is locked.
func (o *Owner) opened(l *stretched, began time.Time, tokens []uint64) {
	l.learn(&l.opening.Change, began, 0)
	for j, r := range l.opening.Change.Open {
		l.open[r.Token] = openOf(r)
		tokens[l.of[j].index] = r.Token
	}
}

// meet claims stretches of logs that are not known, or are known to begin elsewhere.
func (o *Owner) meet(ctx context.Context, all []asking, began time.Time, tokens []uint64) (wrote bool, err error) {
	logs, queries := o.strange(all, began)
	if len(logs) == 0 {
		return false, nil
	}
	locked := make([]bool, len(logs))
	err = o.Update(ctx, queries, func(i int, f *Facts) Change {
		l := logs[i]
		l.opening.Change, locked[i] = Change{Version: f.Version, Token: f.Token, Top: f.Top, Room: f.Room}, f.Locked
		for _, s := range f.Segments { // of a new log: over its rows
			l.opening.Change.Top = max(l.opening.Change.Top, s.To)
		}
		l.of = nil
		for _, s := range l.asked {
			if !f.Locked && Stretch(&l.opening.Change, s.Stretch) {
				l.of = append(l.of, s)
			}
		}
		return l.opening.Change
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, l := range logs {
		switch {
		case err != nil:
			l.known = false
		case !locked[i]:
			l.first = max(l.first, queries[i].First)
			o.opened(l, began, tokens)
		}
	}
	return err == nil, err
}

// strange are the stretches of logs of which has to be learned what lies in them.
func (o *Owner) strange(all []asking, now time.Time) (logs []*stretched, queries []Query) {
	o.mu.Lock()
	defer o.mu.Unlock()
	by := map[Log]int{}
	for _, s := range all {
		h := o.held(s.log, &s.First, now)
		if h.known && s.First.Key.Pos.First <= h.first || !h.suits(&s.First, s.offset) {
			continue
		}
		span := Span{s.offset, s.Last + 1}
		if prev := s.First.Key.Pos.Prev; prev >= 0 { // with the gap before
			span.From = min(span.From, prev+1)
		}
		at, there := by[s.log]
		if !there {
			at = len(logs)
			by[s.log], logs = at, append(logs, &stretched{held: h})
			queries = append(queries, Query{Info: h.info, Span: span, Room: true})
		}
		q := &queries[at]
		q.Span = Span{min(q.Span.From, span.From), max(q.Span.To, span.To)}
		q.First = max(q.First, s.First.Key.Pos.First)
		logs[at].asked = append(logs[at].asked, s)
	}
	return logs, queries
}

// stretch plans what can be claimed without a look.
func (o *Owner) stretch(all []asking, now time.Time, tokens []uint64) (logs []*stretched) {
	o.mu.Lock()
	defer o.mu.Unlock()
	by := map[Log]*stretched{}
	for _, s := range all {
		h := o.logs[s.log]
		if tokens[s.index] != 0 || h == nil || !h.known || s.First.Key.Pos.First > h.first || !h.suits(&s.First, s.offset) {
			continue
		}
		l := by[s.log]
		if l == nil {
			l = &stretched{held: h, opening: Opening{Log: s.log, Version: h.version}}
			l.opening.Change = Change{Version: h.version, Token: h.token, Top: h.top, Room: h.room}
		}
		if Stretch(&l.opening.Change, s.Stretch) {
			h.used = now
			l.of = append(l.of, s)
			if by[s.log] == nil {
				by[s.log], logs = l, append(logs, l)
			}
		}
	}
	return logs
}

// suits says whether an entry may lie in a range of the log.
func (h *held) suits(e *ledger.Entry, offset int64) bool {
	if !e.Ranged || e.StampToken != 0 || e.Copy || e.Key.Scope != h.info.Scope {
		return false
	}
	prefix, ok := prefixOf(e.Key.ID, offset)
	return ok && string(prefix) == h.info.Prefix
}

// Stretch opens one range for all of a stretch in a log of which nothing lies at or above c.Top, or in c.Room, as [Look] does for its
// records one by one; false: it leaves it alone, and c as it is. It is pure.
func Stretch(c *Change, s *ledger.Stretch) bool {
	first := s.First.Key.Pos.Offset
	if s.Last < first || s.Last > ledger.MaxOffset {
		return false
	}
	low, fits := floor(Span{first, s.Last + 1}, c.Top, c.Room)
	if !fits {
		return false
	}
	at := first
	for _, g := range s.Gaps {
		if g.From <= at || g.To <= g.From || g.To > s.Last || g.To-g.From > maxGap {
			return false
		}
		at = g.To
	}
	facts := Facts{Version: c.Version, Token: c.Token, Top: c.Top, HasRow: func(int64) bool { return false }}
	if low > 0 && s.First.Key.Pos.Prev+1 < low { // nothing is known of a gap that begins below
		facts.Segments = []Segment{{Span: Span{0, low}}}
	}
	_, next := Look(&facts, []Ask{{Offset: first, Prev: s.First.Key.Pos.Prev, Ranged: true}}, s.First.Window)
	r := next.Open[0]
	for _, g := range s.Gaps {
		r.Done.Add(Span(g))
	}
	r.To, r.Messages = s.Last+1, s.Messages()
	if len(c.Open) == 0 {
		c.Version = next.Version
	}
	c.Token, c.Top, c.Room, c.Open = next.Token, max(next.Top, r.To), c.Room.above(r.Span), append(c.Open, r)
	return true
}

// SettleStretches implements [ledger.StretchOwner].
func (o *Owner) SettleStretches(ctx context.Context, done []ledger.StretchDone) ([]error, error) {
	c := &settling{owner: o, whole: done, out: make([]error, len(done)), by: map[Log]*logSave{}}
	if err := c.saveAll(ctx); err != nil {
		return nil, storage.MarkPartly(c.wrote, err)
	}
	return c.out, nil
}

// sortWhole is sort for a stretch: all of it is new to its range, or, in a call that is repeated, nothing is. The owner is
// locked.
func (c *settling) sortWhole(k int) {
	d, i := &c.whole[k], len(c.in)+k
	log, first := SplitSum(d.Ticket.Sum())
	span := Span{first, d.Last + 1}
	c.out[i] = ledger.ErrParts
	h := c.owner.logs[log]
	if h == nil {
		return
	}
	r := h.open[d.Ticket.Token()]
	if r == nil {
		p, ok := h.past[d.Ticket.Token()]
		if ok && p.span.Contains(span) && !p.moved.Meets(span) && !p.back.Meets(span) {
			c.out[i] = nil
		}
		return
	}
	if !r.Contains(span) || r.moved.Meets(span) || r.Back.Meets(span) || h.doubt.Meets(span) {
		return
	}
	if !r.Done.Covers(span) {
		left := int64(0)
		for s := range r.Done.Without(span) {
			left += s.Len()
		}
		if left != d.Messages {
			return
		}
		for s := range r.Done.Without(span) {
			c.marks = append(c.marks, mark{of: r, log: log, at: s})
		}
		r.Done.Add(span)
		r.dirty = true
	}
	c.out[i] = nil
	if r.dirty {
		c.place = append(c.place, saving{i, c.touch(h, log, r.Token), r.Token})
	}
}
