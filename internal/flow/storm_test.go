package flow

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// storm plays everything around a flow: brokers, a ledger, handlers; and keeps beside it what it has offered.
type storm struct {
	t       *testing.T
	seed    uint64
	r       *rand.Rand
	f       *Flow
	now     time.Duration
	calm    bool                     // all goes well from now on
	mood    int                      // the larger, the less goes wrong
	offset  map[string]int           // of each log's next record
	left    map[string]int           // records that are not finished, by name
	well    map[int]bool             // offsets of the ordered log whose handler has ended well
	back    map[string]bool          // those that a broker has back, or will, by name
	grace   map[string]time.Duration // until when they may run on
	woke    time.Duration            // when the flow was woken last
	drops   map[*Drop]int            // how often each was told to have ended
	last    *Drop                    // of the drain
	ranges  []*Range
	claims  []*Claim
	batches []*Batch
	hands   []*handled
	did     map[string]int
}

// handled is a dispatch in the hands of a goroutine.
type handled struct {
	d        *Dispatch
	of       []*Item // like those of the range that it is part of; nil: of none
	recalled bool
}

// items are those of the dispatch, or like them as long as its range is whole.
func (h *handled) items() []*Item {
	if h.d.rng != nil {
		return h.of
	}
	return h.d.Items
}

// stormRecords are records of a log from an offset on.
type stormRecords struct {
	w    *storm
	log  string
	from int
}

func (r stormRecords) Size(int) int64 { return 10 }
func (r stormRecords) Expand(from, to int) (items []*Item) {
	for i := from; i < to; i++ {
		items = append(items, stormItem(r.log, r.from+i))
	}
	return items
}

// stormItem is a record of log "ordered", whose records run in order, or of another.
func stormItem(log string, offset int) *Item {
	it := recordItem(log, offset)
	it.Key.ID = append([]byte(log), it.Key.ID...)
	it.Size = 10
	if log == "ordered" {
		it.OrderingKey = log
	}
	return it
}

func newStorm(t *testing.T, seed uint64) *storm {
	cfg := Config{Concurrency: 4, ClaimAhead: 200, BatchSize: 1, Seed: seed, MinConcurrency: int(seed / 3 % 3)}
	if seed%8 == 7 { // then there are no ranges
		cfg.Rules = bookRules[seed/8%uint64(len(bookRules))]()
	}
	f := joined(cfg)
	f.cost = 1
	return &storm{
		t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 47)), f: f, offset: map[string]int{}, left: map[string]int{},
		well: map[int]bool{}, back: map[string]bool{}, drops: map[*Drop]int{}, grace: map[string]time.Duration{}, did: map[string]int{}, mood: []int{1, 10, 100}[seed%3],
	}
}

// wrong says whether something goes wrong, once in n times where much does.
func (w *storm) wrong(n int) bool { return !w.calm && w.r.IntN(n*w.mood) == 0 }

func (w *storm) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, at %s: "+format, append([]any{w.seed, w.now}, args...)...)
}

func (w *storm) offer() {
	log := []string{"ordered", "a", "b"}[w.r.IntN(3)]
	n := 1 + w.r.IntN(8)
	records := stormRecords{w, log, w.offset[log]}
	w.offset[log] += n
	items := records.Expand(0, n)
	for _, it := range items {
		w.left[string(it.Key.ID)] = 1
	}
	if w.wrong(4) {
		for _, it := range items {
			w.f.Offer(w.now, it)
		}
		return
	}
	r := &Range{Records: records, Len: n, Ordered: log == "ordered"}
	r.Claim = ledger.Stretch{First: ledger.Entry{Key: items[0].Key}, Last: int64(records.from + n - 1)}
	w.ranges = append(w.ranges, r)
	w.f.OfferRange(w.now, r)
}

func (w *storm) answer() {
	at := w.r.IntN(len(w.claims))
	c := w.claims[at]
	w.claims = slices.Delete(w.claims, at, at+1)
	fails := c.Session.lost || w.wrong(5)
	switch {
	case len(c.Ranges) > 0 && fails:
		items := Claim{Session: c.Session, Items: w.f.AskEach(w.now, c.Ranges)}
		w.f.Unanswered(&items)
		w.f.Unclaimed(&items)
	case len(c.Ranges) > 0:
		tokens := make([]uint64, len(c.Ranges))
		for i := range tokens {
			if !w.wrong(4) {
				tokens[i] = 1 + w.r.Uint64N(100)
			}
		}
		w.f.ClaimedRanges(w.now, c, tokens)
	case fails:
		w.f.Unanswered(c)
		w.f.Unclaimed(c)
	default:
		answers := slices.Repeat([]ledger.Claim{{Answer: ledger.Run, Attempt: 1}}, len(c.Items))
		for i := range answers {
			if w.wrong(6) {
				answers[i] = ledger.Claim{Answer: ledger.Busy, Wait: time.Duration(w.r.IntN(300)) * time.Millisecond}
			}
		}
		w.f.Claimed(w.now, c, answers, nil)
	}
	w.f.ClaimOver(c)
}

func (w *storm) begin() {
	d, p := w.f.Next(w.now, w.r.IntN(4))
	h := &handled{d: d}
	if p.Range != nil {
		h.d, h.of = w.f.Begin(w.now, p), p.Range.Records.Expand(p.From, p.To)
	}
	if h.d == nil {
		return
	}
	w.hands = append(w.hands, h)
	first := h.items()[0]
	for i := 0; first.OrderingKey != "" && i < int(first.Key.Pos.Offset); i++ {
		if !w.well[i] {
			w.fatal("offset %d begins before %d has ended well", first.Key.Pos.Offset, i)
		}
	}
}

// endedWell notes that a handler did.
func (w *storm) endedWell(it *Item) {
	if it.OrderingKey != "" {
		w.well[int(it.Key.Pos.Offset)] = true
	}
}

func (w *storm) end() {
	at := w.r.IntN(len(w.hands))
	h := w.hands[at]
	w.hands = slices.Delete(w.hands, at, at+1)
	d := h.d
	plain := !h.recalled && !w.wrong(4)
	items := h.items()
	whole := w.f.EndedRange(w.now, d, plain)
	if whole && !plain {
		w.fatal("a range of which not all went well goes on as one")
	}
	for i := 0; whole && i < d.Limit(); i++ {
		w.endedWell(items[i])
	}
	if !whole && !h.recalled && d.ordered && !plain {
		w.f.Recalled(d, 1+w.r.IntN(d.N)) // the last that began did not go well
	}
	w.f.Took(d, time.Duration(d.Limit()), whole)
	for i := d.Applied(); i < d.Limit(); i++ {
		o := Outcome{}
		if !plain && i == d.Limit()-1 && !w.calm {
			o = []Outcome{{}, {Ask: true}, {Skip: LeaseOver}, {Skip: CalledOff},
				{More: &ledger.Settlement{Kind: ledger.Release, After: time.Second, Count: true}, Burdens: true}}[w.r.IntN(5)]
		}
		if o == (Outcome{}) {
			w.endedWell(d.Items[i])
		}
		w.f.Ran(w.now, d, o)
	}
	w.f.Measured(w.now, d, time.Duration(d.Limit()), whole)
	w.f.Free(d)
}

func (w *storm) settled() {
	at := w.r.IntN(len(w.batches))
	b := w.batches[at]
	w.batches = slices.Delete(w.batches, at, at+1)
	errs, whole := make([]error, len(b.Items)+len(b.Ranges)), error(nil)
	for i := range errs {
		if w.wrong(5) {
			errs[i] = errors.New("locked")
			if len(b.Ranges) > 0 {
				errs[i] = ledger.ErrParts
			}
		}
	}
	if b.Session().lost {
		whole = ledger.ErrLost
	}
	w.f.Settled(w.now, b, errs, whole)
	w.f.SettleOver(w.now, b)
}

func (w *storm) upset() {
	switch w.r.IntN(6) {
	case 5:
		w.drop()
	case 0:
		w.f.Reachable(w.now, w.f.sess != nil && w.r.IntN(2) == 0)
	case 1:
		w.f.Pause(w.now)
	case 2:
		w.f.Resume()
	case 3:
		if w.f.sess != nil && w.r.IntN(3) == 0 {
			w.did["lost"]++
			w.f.LeaseLost(w.now, w.f.sess)
		}
	case 4:
		for _, h := range w.hands {
			w.f.Stuck(w.now, h.d)
		}
	}
	if w.f.sess == nil && w.r.IntN(2) == 0 {
		w.f.Joined(&Session{Ranges: true})
	}
}

// work takes one step of those that go on by themselves.
func (w *storm) work() {
	switch n := w.r.IntN(8); {
	case n == 0:
		if c := (&Claim{}); w.f.NextClaim(w.now, c) {
			w.claims = append(w.claims, c)
		}
	case n == 1 && len(w.claims) > 0:
		w.answer()
	case n == 2 || n == 3:
		w.begin()
	case n == 4 && len(w.hands) > 0:
		w.end()
	case n == 5:
		if b := (&Batch{}); w.f.NextSettle(w.now, b) {
			w.settles(b)
		}
	case n == 6 && len(w.batches) > 0:
		w.settled()
	case n == 7:
		w.now += time.Duration(w.r.IntN(100)) * time.Millisecond
		w.woke = w.now
		w.f.Wake(w.now)
		w.f.Rescue(w.now, w.r.IntN(2))
	}
	w.settle()
}

// drop takes back what is in hand of a log: what comes after it may begin as soon as nothing of it runs.
func (w *storm) drop() (d *Drop, log string) {
	log = []string{"ordered", "a", "b"}[w.r.IntN(3)]
	grace := time.Duration(w.r.IntN(500)) * time.Millisecond
	w.did["dropped"]++
	for name := range w.left {
		if strings.HasPrefix(name, log) && !w.back[name] {
			w.back[name], w.grace[name] = true, w.now+grace
		}
	}
	d = w.f.Drop(w.now, func(it *Item) bool { return it.Key.Pos.Log == log }, grace, nil)
	w.drops[d] += 0
	for i := 0; log == "ordered" && i < w.offset[log]; i++ {
		w.well[i] = true
	}
	return d, log
}

// finish lets everything go well, or drains, until nothing is left to be done.
func (w *storm) finish(drains bool) {
	w.calm = true
	if drains {
		for name := range w.left {
			w.back[name] = true
		}
		w.last = w.f.Drain(w.now, nil)
		w.drops[w.last] += 0
		w.settle()
	}
	inHand := func() int {
		if drains { // what the broker has back may be ours still, as far as is known: leaving frees it
			return len(w.left) + w.f.s.working
		}
		return w.f.s.held
	}
	for steps := 0; inHand() > 0 || len(w.hands)+len(w.claims)+len(w.batches) > 0; steps++ {
		if steps > 20_000 {
			w.fatal("forgotten: %d records, %d handlers, %d claims", len(w.left), len(w.hands), len(w.claims))
		}
		if w.f.Resume(); w.f.sess == nil {
			w.f.Joined(&Session{Ranges: true})
		}
		w.f.Reachable(w.now, true)
		before := len(w.hands)
		if w.work(); drains && len(w.hands) > before {
			w.fatal("a handler begins during the drain")
		}
	}
	if len(w.left) > 0 {
		w.fatal("%d records are not finished, and nothing is in hand", len(w.left))
	}
	for d, n := range w.drops {
		if !d.Ended() && (!drains || d == w.last) || n > 1 {
			w.fatal("a drop has ended: %v, and %d times", d.Ended(), n)
		}
	}
	if !drains {
		w.ended()
	}
}

// Whatever comes, in whatever order:
//   - of a log there are ranges that are ours, or items, and never both;
//   - each record is in hand once, as an item or in a range, until it is finished, and is finished once;
//   - an item has its key as long as it is, or may be, ours, and not else;
//   - of an ordered log one range runs at a time, an item only if it heads its sequence, and none before all that come before
//     it have ended well;
//   - a record is in one call that settles at a time, and a log's ranges are settled in their order, or together;
//   - while nothing may start no range is whole, and what has not begun is taken back;
//   - what a broker takes back is finished once, too, when its grace is over at the latest; a drop ends once, and not before the
//     broker knows; a drain ends when no handler runs and nothing is to be settled, and no handler begins in it;
//   - once all goes well again everything is finished, and nothing is left behind.
func TestFlowAgainstWhatWasOffered(t *testing.T) {
	t.Parallel()
	did := map[string]int{}
	for seed := range uint64(36) {
		w := newStorm(t, seed)
		for range 1500 {
			switch n := w.r.IntN(30); {
			case n < 4 && len(w.left) < 60:
				w.offer()
				w.settle()
			case w.wrong(12):
				w.upset()
				w.settle()
			default:
				w.work()
			}
		}
		w.finish(seed%2 == 1)
		for what, n := range w.did {
			did[what] += n
		}
	}
	if min(did["whole"], did["recalled"], did["lost"], did["dropped"]) < 50 {
		t.Errorf("%v: too little happened", did)
	}
}
