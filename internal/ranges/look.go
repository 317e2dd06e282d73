package ranges

import (
	"cmp"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Ask is one entry with a position, in ascending order of offsets and each offset once.
type Ask struct {
	Offset int64
	Prev   int64 // the offset delivered before it; -1: not known
	Ranged bool  // it may be held in a range
	Lone   bool  // it says nothing about its neighbours (a replayed copy)
	Index  int   // the caller's
}

// Verdict says how an ask goes on. The zero value is Busy.
type Verdict uint8

// The verdicts on one ask.
const (
	Busy  Verdict = iota // ask again
	Fresh                // this owner's now, in the range of Answer.Range
	Done                 // terminal
	InRow                // its row decides; it has one, and gets none if that is gone meanwhile
	ToRow                // its row decides; it gets one if it has none
)

// Answer is what a plan says about one ask.
type Answer struct {
	Verdict Verdict
	Token   uint64        // with Fresh
	Wait    time.Duration // with Busy: as ledger.Claim.Wait
	Held    bool          // with Busy: a live owner has it
	First   bool          // with InRow: as ledger.Claim.First
}

// rowStride is for how many offsets at once a log's messages are bound to rows: so far ahead need nobody look at ranges
// when they claim a message with a row of its own.
const rowStride = 100_000

// maxGap is the longest gap inside of a range: behind a longer one begins the next range.
const maxGap = 1000

// Look answers asks by what a transaction sees of their log, and says what it has to write. It is pure: the truth of the
// claim table for what lies in ranges. What has, or needs, a row of its own is left to the table itself.
func Look(f *Facts, asks []Ask, window time.Duration) ([]Answer, Change) {
	l := &looking{f: f, asks: asks, window: window, out: make([]Answer, len(asks)),
		c: Change{Version: f.Version, Token: f.Token, Top: f.Top}}
	if f.Locked {
		return l.out, l.c
	}
	l.c.Room = f.Room
	for i := range asks {
		l.answer(i)
	}
	l.settle()
	return l.out, l.done()
}

// Abandoned dissolves the ranges of owners that left or died, for whose messages nobody has asked: so that these are seen,
// and the owners can go. Stores ask for it in their sweep.
func Abandoned(f *Facts) Change {
	l := &looking{f: f, c: Change{Version: f.Version, Token: f.Token, Top: f.Top}}
	if f.Locked {
		return l.c
	}
	for i := range f.Ranges {
		if r := &f.Ranges[i]; r.abandoned() {
			l.dissolve(r)
		}
	}
	return l.done()
}

// abandoned says that the range's owner left or died, and that it can be dissolved.
func (r *Range) abandoned() bool {
	return !r.Locked && (r.Holder == ledger.Left || r.Holder == ledger.Dead)
}

// done is all that there is to write.
func (l *looking) done() Change {
	for i := range l.c.Open {
		l.c.Room = l.c.Room.above(l.c.Open[i].Span)
	}
	for i := range l.add {
		l.c.Room = l.c.Room.above(l.add[i].Span)
	}
	l.c.put(l.f.Segments, l.add)
	if len(l.c.Open) > 0 || len(l.add) > 0 || len(l.c.Rows) > 0 {
		// Above all that a log of this name had, that was dropped when nothing was left in it.
		l.c.Version = max(l.c.Version+1, uint64(max(l.f.Now.UnixMicro(), 0)))
	}
	return l.c
}

type looking struct {
	f       *Facts
	asks    []Ask
	window  time.Duration
	out     []Answer
	c       Change
	touched map[uint64]bool // ours, with messages that left it
	taken   map[uint64]bool // dissolved
	add     []Segment
}

func (l *looking) answer(i int) {
	a := &l.asks[i]
	at := l.segment(a.Offset)
	switch {
	case l.f.HasRow(a.Offset):
		l.out[i].Verdict = InRow
		if at != nil && at.Rows && !l.above(a) {
			l.out[i].Verdict = ToRow
			l.renew(at)
		}
		return
	case at != nil && at.Rows && l.above(a):
		l.out[i] = l.forget(a.Offset)
		return
	case at != nil && at.Rows:
		l.out[i].Verdict = ToRow
		l.renew(at)
		return
	case at != nil:
		l.out[i].Verdict = Done
		return
	}
	for j := range l.f.Ranges {
		r := &l.f.Ranges[j]
		if r.Has(a.Offset) && !r.Back.Has(a.Offset) {
			l.out[i] = l.inside(r, a.Offset)
			return
		}
	}
	if a.Ranged {
		l.out[i] = l.open(a)
		return
	}
	if a.Offset < l.f.Top && l.f.Token > 0 {
		l.out[i] = l.forget(a.Offset)
		return
	}
	l.out[i].Verdict = ToRow
	if l.above(a) {
		l.out[i] = l.forget(a.Offset)
	}
	l.bind(a)
}

// above says that a message may have been in a range, though nothing says so: its log was dropped and made anew. Then the log
// is bound to rows over all that lies between the rows that were left. The message's row needs a token above the log's, so the
// owner must look each time. But for copies, claims by row do not ask what a log had that was dropped.
func (l *looking) above(a *Ask) bool { return (a.Ranged || a.Lone) && l.f.Token > 0 }

// forget makes a row of what may have been in a range once, and was given back, or was cut off with the log's start: its token must
// be higher than it was then. A row that it had, and which is gone, may have had a higher one than any range.
func (l *looking) forget(offset int64) Answer {
	if l.c.Token == l.f.Token {
		l.c.Token++
	}
	l.c.Token = max(l.c.Token, uint64(max(l.f.Now.UnixMicro(), 0)))
	l.c.Rows = append(l.c.Rows, Row{Offset: offset, Token: l.c.Token, Nobody: true, At: l.f.Now, Expiry: l.f.Now.Add(l.window)})
	return Answer{Verdict: InRow, First: true}
}

// renew keeps a binding to rows for longer than owners go by it without a look.
func (l *looking) renew(s *Segment) {
	if n := len(l.c.Bound); n > 0 && l.c.Bound[n-1] == s.Span {
		return
	}
	l.c.Bound = append(l.c.Bound, s.Span)
	if s.Expiry.After(l.f.Now.Add(l.window/2)) && s.Until.After(l.f.Now.Add(-TrimAfter/2)) {
		return
	}
	renewed := *s
	renewed.Until, renewed.Expiry = l.f.Now, l.f.Now.Add(l.window)
	l.add = append(l.add, renewed)
}

func (l *looking) segment(offset int64) *Segment {
	i, found := slices.BinarySearchFunc(l.f.Segments, offset, func(s Segment, o int64) int { return cmp.Compare(s.From, o) })
	if !found {
		i--
	}
	if i >= 0 && l.f.Segments[i].Has(offset) {
		return &l.f.Segments[i]
	}
	return nil
}

// inside answers for an offset that a range speaks for.
func (l *looking) inside(r *Range, offset int64) Answer {
	switch {
	case r.Done.Has(offset):
		return Answer{Verdict: Done}
	case l.taken[r.Token]:
		return Answer{Verdict: InRow}
	case r.Holder == ledger.Live:
		return Answer{Wait: max(r.HeldFor, 0), Held: true}
	case r.Locked || r.Holder == ledger.Nobody:
		return Answer{}
	case r.Holder == ledger.Mine: // our own claim, whose answer was lost
		if l.touched == nil {
			l.touched = map[uint64]bool{}
		}
		l.touched[r.Token] = true
		r.Done.Add(Span{offset, offset + 1})
		l.row(r, offset)
		return Answer{Verdict: InRow, First: true}
	}
	l.dissolve(r)
	return Answer{Verdict: InRow}
}

func (l *looking) row(r *Range, offset int64) {
	l.c.Rows = append(l.c.Rows, Row{Offset: offset, Token: r.Token, At: r.At, Expiry: r.At.Add(r.Window)})
}

// dissolve ends the range of an owner that left or died: what is finished becomes segments, the rest rows that name that
// owner, so that the claim table counts its crash.
func (l *looking) dissolve(r *Range) {
	if l.taken == nil {
		l.taken = map[uint64]bool{}
	}
	l.taken[r.Token] = true
	l.c.Close = append(l.c.Close, r.Token)
	finished := r.Done.Clone()
	finished.AddAll(r.Back)
	for _, s := range l.f.Segments {
		finished.Add(s.Span)
	}
	for open := range finished.Without(r.Span) {
		for o := open.From; o < open.To; o++ {
			l.row(r, o)
		}
	}
	l.finish(r)
}

// finish makes segments of all of a range but what was given back.
func (l *looking) finish(r *Range) { l.add = append(l.add, segments(r, l.f.Now)...) }

// segments are what is left of a range that is over.
func segments(r *Range, now time.Time) []Segment {
	var out []Segment
	left := r.Messages
	for span := range r.Back.Without(r.Span) {
		n := min(left, span.Len())
		left -= n
		out = append(out, Segment{Span: span, Messages: n, Since: r.At, Until: now, Expiry: now.Add(r.Window)})
	}
	return out
}

// open puts an offset that nobody has spoken for into this owner's newest range, or into a new one.
func (l *looking) open(a *Ask) Answer {
	if n := len(l.c.Open); n > 0 {
		r := &l.c.Open[n-1]
		gap := Span{r.To, a.Offset}
		if gap.Len() == 0 || gap.Len() <= maxGap && a.Prev >= 0 && a.Prev < r.To && l.unspoken(gap) {
			r.Done.Add(gap)
			r.To = a.Offset + 1
			r.Messages++
			l.c.Top = max(l.c.Top, r.To)
			return Answer{Verdict: Fresh, Token: r.Token}
		}
	}
	l.c.Token++
	r := Range{Span: Span{a.Offset, a.Offset + 1}, Token: l.c.Token, Holder: ledger.Mine, Messages: 1, At: l.f.Now, Window: l.window}
	if gap := (Span{a.Prev + 1, a.Offset}); a.Prev >= 0 && gap.Len() > 0 && l.unspoken(gap) {
		r.From = gap.From
		r.Done.Add(gap)
	}
	l.c.Top = max(l.c.Top, r.To)
	l.c.Open = append(l.c.Open, r)
	return Answer{Verdict: Fresh, Token: r.Token}
}

// unspoken says whether nothing at all is known of a span.
func (l *looking) unspoken(span Span) bool {
	finished := func(s Segment) bool { return s.Meets(span) }
	open := func(r Range) bool { return r.Meets(span) }
	return !slices.ContainsFunc(l.f.Segments, finished) && !slices.ContainsFunc(l.f.Ranges, open) &&
		!slices.ContainsFunc(l.c.Open, open) && !slices.ContainsFunc(l.add, finished)
}

// bind makes the offset, and those after it as far as nothing speaks for them, a matter of rows.
func (l *looking) bind(a *Ask) {
	n := len(l.add)
	if n > 0 && l.add[n-1].Rows && l.add[n-1].Has(a.Offset) {
		return
	}
	span := Span{a.Offset, a.Offset + rowStride}
	switch {
	case a.Lone:
		span.To = a.Offset + 1
	case a.Offset < l.f.Top: // nothing is seen of what lies behind the last ask
		span.To = l.asks[len(l.asks)-1].Offset + 1
	}
	cut := func(s Span) {
		if s.From > a.Offset {
			span.To = min(span.To, s.From)
		}
	}
	for _, s := range l.f.Segments {
		cut(s.Span)
	}
	for i := range l.f.Ranges {
		if r := &l.f.Ranges[i]; r.Meets(span) {
			cut(Span{max(r.From, a.Offset+1), r.To})
		}
	}
	for i := range l.c.Open {
		cut(l.c.Open[i].Span)
	}
	for _, next := range l.asks {
		if next.Offset > a.Offset && next.Ranged {
			cut(Span{next.Offset, next.Offset + 1})
			break
		}
	}
	l.add = append(l.add, Segment{Span: span, Rows: true, Since: l.f.Now, Until: l.f.Now, Expiry: l.f.Now.Add(l.window)})
	l.c.Top = max(l.c.Top, span.To)
	l.c.Bound = append(l.c.Bound, span)
}

// settle writes what became of our own ranges.
func (l *looking) settle() {
	for i := range l.f.Ranges {
		r := &l.f.Ranges[i]
		if !l.touched[r.Token] {
			continue
		}
		if r.over() {
			l.c.Close = append(l.c.Close, r.Token)
			l.finish(r)
			continue
		}
		l.c.Alter = append(l.c.Alter, *r)
	}
}
