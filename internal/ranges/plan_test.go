package ranges

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
)

// The state of one offset in the twin.
type place uint8

const (
	nothing place = iota // never claimed, or given back
	inRange              // in an owner's range
	done
	inRow // a row decides
)

// offsets of the twin's log.
const offsets = 40

// twin is a log as a map of offsets, beside the same log as plans see it.
type twin struct {
	t     *rapid.T
	at    [offsets]place
	owner [offsets]int // of inRange
	token [offsets]uint64

	facts  Facts
	ranges []ownRange
	fate   [3]ledger.Holder // of the owners, as the others see them
	known  [3]*Change       // what each has left of the log, when it last claimed
	rows   map[int64]bool
}

type ownRange struct {
	Range
	owner int
}

// see is what owner me sees of the span and of the ranges with these tokens.
func (w *twin) see(me int, span Span, tokens []uint64) *Facts {
	f := w.facts
	f.Segments, f.Ranges = nil, nil
	hull := span
	for _, h := range w.ranges {
		if !h.Meets(span) && !slices.Contains(tokens, h.Token) {
			continue
		}
		r := h.Range
		r.Done, r.Back = h.Done.Clone(), h.Back.Clone()
		r.Holder = w.fate[h.owner]
		if h.owner == me {
			r.Holder = ledger.Mine
		}
		if hull.Len() == 0 {
			hull = r.Span
		}
		hull = Span{min(hull.From, r.From), max(hull.To, r.To)}
		f.Ranges = append(f.Ranges, r)
	}
	for _, s := range w.facts.Segments {
		if s.Touches(hull) {
			f.Segments = append(f.Segments, s)
		}
	}
	f.HasRow = func(o int64) bool { return span.Has(o) && w.rows[o] }
	if span.To < w.facts.Top && span.Len() > 0 {
		f.Room = Span{span.To, w.next(span.To)}
	}
	return &f
}

// next is where something lies, at an offset or behind it.
func (w *twin) next(from int64) int64 {
	next := w.facts.Top
	for _, s := range w.facts.Segments {
		if s.To > from {
			next = min(next, max(s.From, from))
		}
	}
	for _, h := range w.ranges {
		if h.To > from {
			next = min(next, max(h.From, from))
		}
	}
	for o := range w.rows {
		if o >= from {
			next = min(next, o)
		}
	}
	return next
}

// write does what a store does with a change.
func (w *twin) write(me int, c *Change) {
	w.facts.Version, w.facts.Token, w.facts.Top = c.Version, c.Token, c.Top
	for _, r := range c.Rows {
		w.rows[r.Offset] = true
	}
	for _, r := range c.Alter {
		for i := range w.ranges {
			if w.ranges[i].Token == r.Token {
				w.ranges[i].Range = r
			}
		}
	}
	w.ranges = slices.DeleteFunc(w.ranges, func(h ownRange) bool { return slices.Contains(c.Close, h.Token) })
	for _, r := range c.Open {
		w.ranges = append(w.ranges, ownRange{r, me})
	}
	for _, from := range c.Drop {
		n := len(w.facts.Segments)
		w.facts.Segments = slices.DeleteFunc(w.facts.Segments, func(s Segment) bool { return s.From == from })
		if len(w.facts.Segments) != n-1 {
			w.t.Fatalf("dropped segment %d, which is not there once", from)
		}
	}
	w.facts.Segments = append(w.facts.Segments, c.Put...)
	slices.SortFunc(w.facts.Segments, func(a, b Segment) int { return int(a.From - b.From) })
	w.check()
}

// check compares what the plans left behind with the map.
func (w *twin) check() {
	for i, s := range w.facts.Segments {
		if s.Len() == 0 || s.Messages < 0 || s.Messages > s.Len() {
			w.t.Fatalf("segment %+v", s)
		}
		if i > 0 && (w.facts.Segments[i-1].Meets(s.Span) || w.facts.Segments[i-1].Rows == s.Rows && w.facts.Segments[i-1].To == s.From) {
			w.t.Fatalf("segments meet, or are not one: %+v", w.facts.Segments)
		}
		if s.To > w.facts.Top {
			w.t.Fatalf("segment %+v above the top %d", s, w.facts.Top)
		}
	}
	for _, h := range w.ranges {
		if h.To > w.facts.Top || h.Token > w.facts.Token {
			w.t.Fatalf("range %+v above the top %d or token %d", h.Range, w.facts.Top, w.facts.Token)
		}
	}
	for o := range int64(offsets) {
		speaks := 0
		for _, s := range w.facts.Segments {
			if s.Has(o) && !s.Rows {
				speaks++
			}
		}
		pending := false
		for _, h := range w.ranges {
			if h.Has(o) && !h.Back.Has(o) {
				speaks++
				pending = pending || !h.Done.Has(o)
			}
		}
		if speaks > 1 {
			w.t.Fatalf("%d speak for offset %d: %+v %+v", speaks, o, w.facts.Segments, w.ranges)
		}
		if pending != (w.at[o] == inRange) || w.at[o] == done && speaks == 0 || w.rows[o] != (w.at[o] == inRow) {
			w.t.Fatalf("offset %d: pending %t, %d speak, row %t; want %d", o, pending, speaks, w.rows[o], w.at[o])
		}
	}
}

// claim asks for some offsets.
func (w *twin) claim() {
	me := rapid.IntRange(0, 2).Draw(w.t, "owner")
	var asks []Ask
	ranged := rapid.IntRange(0, 4).Draw(w.t, "kind") > 0
	from := rapid.Int64Range(0, offsets-1).Draw(w.t, "from")
	for o := from; o < min(offsets, from+12); o++ {
		if rapid.IntRange(0, 2).Draw(w.t, "ask") == 0 {
			continue
		}
		asks = append(asks, Ask{Offset: o, Prev: -1, Ranged: ranged && rapid.IntRange(0, 8).Draw(w.t, "ranged") > 0})
	}
	if len(asks) == 0 || w.fate[me] != ledger.Live {
		return
	}
	f := w.see(me, Span{asks[0].Offset, asks[len(asks)-1].Offset + 1}, nil)
	answers, c := Look(f, asks, time.Hour)
	for i, a := range asks {
		w.answered(me, a, answers[i])
	}
	w.left(&c)
	w.write(me, &c)
	w.known[me] = &c
}

// lean claims without a look where an owner knows that nothing lies, if the log is as it has left it.
func (w *twin) lean() {
	me := rapid.IntRange(0, 2).Draw(w.t, "owner")
	c := w.known[me]
	if c == nil || w.fate[me] != ledger.Live || c.Version != w.facts.Version {
		return
	}
	if c.Room.Len() > 0 && w.next(c.Room.From) < c.Room.To {
		w.t.Fatalf("something lies at %d, in the room %v", w.next(c.Room.From), c.Room)
	}
	from := rapid.Int64Range(0, offsets-1).Draw(w.t, "from")
	last := min(offsets-1, from+rapid.Int64Range(0, 5).Draw(w.t, "more"))
	asks := []Ask{{Offset: from, Prev: rapid.Int64Range(-1, from-1).Draw(w.t, "prev"), Ranged: true}}
	for o := from + 1; o <= last; o++ {
		asks = append(asks, Ask{Offset: o, Prev: o - 1, Ranged: true})
	}
	low, fits := floor(Span{from, last + 1}, c.Top, c.Room)
	if !fits {
		return
	}
	f := Facts{Now: w.facts.Now, Version: c.Version, Token: c.Token, Top: c.Top, Room: c.Room, HasRow: func(int64) bool { return false }}
	if low > 0 && asks[0].Prev+1 < low {
		f.Segments = []Segment{{Span: Span{0, low}}}
	}
	answers, next := Look(&f, asks, time.Hour)
	next.Drop, next.Put = nil, nil
	for i, a := range asks {
		if w.answered(me, a, answers[i]); answers[i].Verdict != Fresh {
			w.t.Fatalf("offset %d: %+v", a.Offset, answers[i])
		}
	}
	for o := max(asks[0].Prev+1, 0); o < from; o++ { // a gap that is covered is finished
		if next.Open[0].Has(o) {
			w.at[o] = done
		}
	}
	w.write(me, &next)
	w.known[me] = &next
}

// left notes what left its range for a row.
func (w *twin) left(c *Change) {
	for _, r := range c.Rows {
		if r.Nobody && r.Token <= w.token[r.Offset] {
			w.t.Fatalf("offset %d: a row with token %d, had %d", r.Offset, r.Token, w.token[r.Offset])
		}
		if w.at[r.Offset] == inRange || r.Nobody && w.at[r.Offset] == nothing {
			w.at[r.Offset] = inRow
		}
	}
}

func (w *twin) answered(me int, a Ask, got Answer) {
	o := a.Offset
	want := []Verdict{Fresh, InRow, ToRow}
	switch {
	case w.at[o] == done:
		want = []Verdict{Done}
	case w.at[o] == inRow:
		want = []Verdict{InRow, ToRow}
	case w.at[o] == inRange && w.owner[o] != me && w.fate[w.owner[o]] == ledger.Live:
		want = []Verdict{Busy}
	case w.at[o] == inRange:
		want = []Verdict{InRow}
	}
	if !slices.Contains(want, got.Verdict) || !a.Ranged && got.Verdict == Fresh {
		w.t.Fatalf("offset %d, in state %d of owner %d, asked by %d: %+v, want one of %v", o, w.at[o], w.owner[o], me, got, want)
	}
	if got.Verdict == Fresh {
		if got.Token <= w.token[o] {
			w.t.Fatalf("offset %d: token %d, had %d", o, got.Token, w.token[o])
		}
		w.at[o], w.owner[o], w.token[o] = inRange, me, got.Token
	}
	if got.Verdict == ToRow && w.at[o] == nothing && w.token[o] > 0 {
		w.t.Fatalf("offset %d gets a row with token 1, and had token %d in a range", o, w.token[o])
	}
	if got.Verdict == ToRow { // the claim table makes it
		w.at[o] = inRow
		w.rows[o] = true
	}
}

// save settles what an owner has in one of its ranges.
func (w *twin) save() {
	me := rapid.IntRange(0, 2).Draw(w.t, "owner")
	mine := slices.DeleteFunc(slices.Clone(w.ranges), func(h ownRange) bool { return h.owner != me })
	if len(mine) == 0 || w.fate[me] != ledger.Live {
		return
	}
	h := rapid.SampledFrom(mine).Draw(w.t, "range")
	s := Saved{Token: h.Token, Done: h.Done.Clone(), Back: h.Back.Clone(), Messages: h.Messages}
	for o := range h.Open() {
		one := Span{o, o + 1}
		switch rapid.IntRange(0, 4).Draw(w.t, "settle") {
		case 0, 1:
			s.Done.Add(one)
			w.at[o] = done
		case 2:
			s.Back.Add(one)
			s.Messages--
			w.at[o] = nothing
		case 3:
			s.Done.Add(one)
			s.Rows = append(s.Rows, Row{Offset: o})
			w.at[o] = inRow
		}
	}
	c, lost := Save(w.see(me, Span{}, []uint64{h.Token}), []Saved{s})
	if len(lost) > 0 {
		w.t.Fatalf("lost %v", lost)
	}
	w.write(me, &c)
}

// end lets an owner leave or die, and another one come in its place when nothing is left of it.
func (w *twin) end() {
	me := rapid.IntRange(0, 2).Draw(w.t, "owner")
	if w.fate[me] == ledger.Live {
		w.fate[me] = rapid.SampledFrom([]ledger.Holder{ledger.Left, ledger.Dead}).Draw(w.t, "fate")
		return
	}
	if !slices.ContainsFunc(w.ranges, func(h ownRange) bool { return h.owner == me }) {
		w.fate[me] = ledger.Live
	}
}

// sweep dissolves what was abandoned.
func (w *twin) sweep() {
	c := Abandoned(w.see(-1, Span{0, offsets}, nil))
	w.left(&c)
	w.write(-1, &c)
	for _, h := range w.ranges {
		if w.fate[h.owner] != ledger.Live {
			w.t.Fatalf("range %+v is left", h.Range)
		}
	}
}

// The twin of a log's plans is a plain map of offsets.
func TestPlans_AgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &twin{t: t, rows: map[int64]bool{}, facts: Facts{Now: time.Unix(1, 0)}}
		for i := range w.fate {
			w.fate[i] = ledger.Live
		}
		actions := []func(){w.claim, w.claim, w.lean, w.lean, w.save, w.save, w.save, w.end, w.sweep}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			rapid.SampledFrom(actions).Draw(t, "action")()
		}
	})
}
