package flow

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// logRecords are records of log "a", of which each takes so many bytes.
type logRecords struct {
	size int64
	made int
}

func (r *logRecords) Size(int) int64 { return r.size }

func (r *logRecords) Expand(from, to int) []*Item {
	items := recordItems(from, to)
	r.made += len(items)
	return items
}

func recordItems(from, to int) (items []*Item) {
	for i := from; i < to; i++ {
		items = append(items, recordItem("a", i))
	}
	return items
}

func recordItem(log string, offset int) *Item {
	return &Item{Identity: Identity{
		Key: ledger.Key{Scope: "s", ID: []byte{byte(offset), byte(offset >> 8)}, Pos: &ledger.Position{Log: log, Offset: int64(offset)}},
	}}
}

// asking is a flow that claims ranges.
func asking() *Flow {
	f := joined(Config{Concurrency: 100, BatchSize: 1, ClaimAhead: 1000})
	f.lastRanged = true
	return f
}

// offers takes a range in hand that is to be claimed.
func offers(f *Flow, log string, n int) *Range {
	r := &Range{Records: &logRecords{size: 1}, log: log, whole: true, Len: n}
	r.Claim = ledger.Stretch{First: ledger.Entry{Key: recordItem(log, 0).Key}, Last: int64(n - 1)}
	f.s.addRange(r)
	f.s.rangeQ.push(r)
	return r
}

// A call for few costs the ledger as much as one for many: beside one that is under way they gather until they are as many.
func TestRangesGatherBesideACall(t *testing.T) {
	f := asking()
	offers(f, "a", 30)
	var c Claim
	if !f.NextClaim(0, &c) || len(c.Ranges) != 1 || f.claiming != 30 {
		t.Fatalf("%d are claimed, %d under way", len(c.Ranges), f.claiming)
	}
	offers(f, "b", 10)
	if n := f.claimableRanges(0); n != 0 {
		t.Errorf("%d are asked for beside 30, with 10 that wait", n)
	}
	offers(f, "c", 20)
	if n := f.claimableRanges(0); n != 170 {
		t.Errorf("%d are asked for beside 30, with 30 that wait, want 170", n)
	}
	f.ClaimedRanges(0, &c, []uint64{7})
	if f.ClaimOver(&c); f.claiming != 0 || f.s.ahead != 30 {
		t.Errorf("%d are under way, %d ahead, when the call is over", f.claiming, f.s.ahead)
	}
}

// What the ledger leaves alone, or refuses to answer for, is ahead of no handler: its place is for what can run.
func TestRangesThatAreNotOursAreNotAhead(t *testing.T) {
	for _, away := range []bool{false, true} {
		f := asking()
		offers(f, "a", 30)
		var c Claim
		f.NextClaim(0, &c)
		if away {
			items := Claim{Session: c.Session, Items: f.AskEach(0, c.Ranges)}
			f.Unclaimed(&items)
		} else {
			f.ClaimedRanges(0, &c, []uint64{0})
		}
		f.ClaimOver(&c)
		if f.claiming != 0 || f.s.ahead != 0 || f.s.claimQ.len() != 30 {
			t.Errorf("away %v: %d under way, %d ahead, %d to be asked for one by one", away, f.claiming, f.s.ahead, f.s.claimQ.len())
		}
	}
}

// A record of a range of which another copy is in hand is given back when the range is expanded: it does not run beside it.
func TestExpandGivesBackWhatAnotherCopyHas(t *testing.T) {
	f := asking()
	offers(f, "a", 2)
	var c Claim
	f.NextClaim(0, &c)
	f.ClaimedRanges(0, &c, []uint64{7})
	other := recordItems(1, 2)[0]
	f.s.enter(other)
	f.s.holdKey(other)
	f.expand("a")
	if f.settleQ.len() != 1 {
		t.Fatalf("%d are given back, want 1", f.settleQ.len())
	}
	if s := f.settleQ.pop(); s.Kind != ledger.Release || !bytes.Equal(s.Item.Key.ID, other.Key.ID) || s.Session != f.sess {
		t.Errorf("%v of %q", s.Kind, s.Item.Key.ID)
	}
}

// Ranges of two sessions are settled by a call each, and those that were expanded meanwhile by none.
func TestRangesOfASessionAreSettledTogether(t *testing.T) {
	f := joined(Config{Concurrency: 1})
	done := func(log string, n int, sess *Session) *Range {
		r := &Range{log: log, whole: true, Len: n, sess: sess, phase: running}
		f.s.addRange(r)
		f.settleRange(r)
		return r
	}
	mine, other := &Session{}, &Session{}
	a, b, c, d := done("a", 10, mine), done("b", 20, other), done("c", 30, mine), done("d", 40, mine)
	d.whole = false
	for _, c := range []struct {
		want []*Range
		left int
	}{{[]*Range{a, c}, 20}, {[]*Range{b}, 0}, {nil, 0}} {
		if got := f.takeDone(nil); !slices.Equal(got, c.want) || f.doneRecords != c.left {
			t.Errorf("%d go together, %d records are left, want %d and %d", len(got), f.doneRecords, len(c.want), c.left)
		}
	}
}

// A handler's goroutine takes as many records of a range as a share of bytes lets it, and no more.
func TestPartsAreBoundedByBytes(t *testing.T) {
	s := newSched(1)
	for size, want := range map[int64]int{dispatchBytes / 2: 2, dispatchBytes/2 - 1: 3, dispatchBytes: 1, 1: 4} {
		r := &Range{Records: &logRecords{size: size}, log: "a", whole: true, Len: 4, phase: claimed}
		s.rangeReady.push(r)
		if p := s.popPart(10, false); p.To-p.From != want {
			t.Errorf("records of %d bytes: %d in a part, want %d", size, p.To-p.From, want)
		}
	}
}

// Records that run together run in as few calls as they fit in, which are as large as each other.
func TestPartsThatRunTogetherAreAlike(t *testing.T) {
	for length := 1; length < 200; length++ {
		for _, n := range []int{1, 2, 7, 10, 100} {
			s := newSched(1)
			r := &Range{Records: &logRecords{size: dispatchBytes}, log: "a", whole: true, Len: length, phase: claimed}
			least, most, parts := length, 0, 0
			for ; r.next < length; parts++ {
				s.rangeReady.push(r)
				p := s.popPart(n, true)
				if p.Range != r || p.From != r.next {
					t.Fatalf("%d by %d: a part from %d, want %d", length, n, p.From, r.next)
				}
				least, most, r.next = min(least, p.To-p.From), max(most, p.To-p.From), p.To
			}
			if most > n || parts != (length+n-1)/n || most-least > 1 {
				t.Fatalf("%d by %d: %d parts of %d to %d", length, n, parts, least, most)
			}
		}
	}
}

// Fast handlers have records of ranges claimed four times as far ahead as single ones, and by large claims alone once there is
// enough for a while.
func TestRangesAreClaimedFarAhead(t *testing.T) {
	f := joined(Config{Concurrency: 16, BatchSize: 1, ClaimAhead: 4000})
	f.lastRanged, f.pace = true, pace{begun: true, limit: 1 << 20}
	offers(f, "a", 100)
	for _, c := range []struct{ ahead, offered, want int }{{1999, 0, 14001}, {2000, 0, 0}, {2000, 1900, 14000}, {14000, 0, 2000}, {14001, 0, 0}} {
		if c.offered > 0 {
			offers(f, "b", c.offered)
		}
		if f.s.ahead = c.ahead; f.claimableRanges(0) != c.want && (c.want > 0 || f.claimableRanges(0) > 1) {
			t.Errorf("%d are ahead: %d may be claimed, want %d", c.ahead, f.claimableRanges(0), c.want)
		}
	}
}

// Records that are not in a range any more are claimed in large calls beside ranges of other logs, of which far more are ahead.
func TestRangesAheadKeepNoSingleRecordsFromLargeClaims(t *testing.T) {
	f := joined(Config{Concurrency: 16, BatchSize: 1, ClaimAhead: 4000})
	f.lastRanged, f.pace = true, pace{begun: true, limit: 1 << 20}
	offers(f, "b", 8000)
	var c Claim
	if !f.NextClaim(0, &c) || f.s.ahead != 8000 || f.s.ranged != 8000 {
		t.Fatalf("%d are ahead, %d of them of ranges", f.s.ahead, f.s.ranged)
	}
	for _, it := range recordItems(0, 3000) {
		f.Offer(0, it)
	}
	if n, headsOnly := f.claimable(0); n != ClaimBatch || headsOnly {
		t.Errorf("%d single ones may be claimed, heads only %t", n, headsOnly)
	}
	f.ClaimedRanges(0, &c, []uint64{1})
	if f.ClaimOver(&c); f.s.ranged != 8000 {
		t.Errorf("%d of ranges are ahead", f.s.ranged)
	}
	if f.expandAll(); f.s.ranged != 0 || f.s.ahead != 8000 {
		t.Errorf("%d of ranges are ahead of %d, when they are items", f.s.ranged, f.s.ahead)
	}
}

// Claims run ahead by half of what they may at least, or by one that can begin at once.
func TestRangesAreClaimedAheadByHalf(t *testing.T) {
	f := asking()
	limit := 2 * f.cfg.Concurrency
	offers(f, "a", limit)
	for ahead, want := range map[int]int{0: limit, limit / 2: limit / 2, limit/2 + 1: 1, limit: 1} {
		if f.s.ahead = ahead; f.claimableRanges(0) != want {
			t.Errorf("%d are ahead: %d may be claimed, want %d", ahead, f.claimableRanges(0), want)
		}
	}
	f.s.ahead = limit
	f.s.rangeReady.push(&Range{})
	if n := f.claimableRanges(0); n != 0 {
		t.Errorf("%d may be claimed although others are ready", n)
	}
}

// What an expanded range is made of is made of its records, once; during a drain it goes back to the broker.
func TestExpandOfARangeThatWaits(t *testing.T) {
	for _, draining := range []bool{false, true} {
		f := asking()
		f.draining = draining
		r := offers(f, "a", 3)
		f.expand("a")
		f.expand("a")
		if made := r.Records.(*logRecords).made; made != 3 || (len(f.out) == 3) != draining || (f.s.claimQ.len() == 3) == draining {
			t.Errorf("draining %v: %d are made, %d go back, %d wait", draining, made, len(f.out), f.s.claimQ.len())
		}
	}
}

// A range that is expanded while it is being claimed leaves its items where it was: none is asked for beside the call, and all
// are ours, or to be asked for, as the answer says.
func TestExpandWhileARangeIsClaimed(t *testing.T) {
	for token, want := range map[uint64]phase{7: claimed, 0: queued} {
		f := asking()
		r := offers(f, "a", 3)
		var c, other Claim
		f.NextClaim(0, &c)
		f.expand("a")
		if f.NextClaim(0, &other) || f.s.ahead != 3 || f.s.inflight.n != 3 || r.whole {
			t.Fatalf("%d are claimed beside the call, %d ahead, %d keys in hand", len(other.Items), f.s.ahead, f.s.inflight.n)
		}
		f.ClaimedRanges(0, &c, []uint64{token})
		f.ClaimOver(&c)
		n := 0
		for it := f.all; it != nil; it = it.allNext {
			if n++; it.phase != want || want == claimed && it.Ticket() != ledger.NewTicket(it.Key.Sum(), 7) {
				t.Errorf("token %d: an item is in phase %d, want %d", token, it.phase, want)
			}
		}
		if n != 3 || f.claiming != 0 {
			t.Errorf("token %d: %d items, %d under way", token, n, f.claiming)
		}
	}
}

// Whether a small call waits beside a large one follows from what came last: what may lie in ranges gathers until it is as large.
func TestWhatCameLastSaysWhatACallIsWorth(t *testing.T) {
	f := joined(Config{Concurrency: 100, BatchSize: 1, ClaimAhead: 1000})
	plain, ranged := plainItem("", "plain"), plainItem("", "ranged")
	ranged.Ranged = true
	r := &Range{Records: &logRecords{size: 1}, Len: 2, Claim: ledger.Stretch{First: ledger.Entry{Key: recordItem("a", 0).Key}, Last: 1}}
	for i, c := range []struct {
		offer  func()
		gather bool
	}{
		{func() { f.Offer(0, plain) }, false}, {func() { f.OfferRange(0, r) }, true},
		{func() { f.Offer(0, plainItem("", "another")) }, false}, {func() { f.Offer(0, ranged) }, true},
	} {
		if c.offer(); f.worthwhile(1, 2) == c.gather || !f.worthwhile(2, 2) {
			t.Errorf("%d: beside 2 one is worth a call: %v", i, f.worthwhile(1, 2))
		}
	}
}

// What a handler has in hand of a range that is expanded goes on as it is, and is told to keep what it needs of the records.
func TestExpandKeepsWhatRuns(t *testing.T) {
	f := asking()
	f.cost = 1
	r := offers(f, "a", 3)
	var c Claim
	f.NextClaim(0, &c)
	f.ClaimedRanges(0, &c, []uint64{7})
	_, p := f.Next(0, 0)
	if p.Range != r || p.From != 0 || p.To != 3 {
		t.Fatalf("%d to %d are next", p.From, p.To)
	}
	p.To = 2
	d := f.Begin(0, p)
	if f.s.ahead != 1 || d == nil || !d.Ordered() {
		t.Fatalf("%d are ahead beside what runs", f.s.ahead)
	}
	f.Stuck(time.Second, d)
	records := r.Records.(*logRecords)
	if f.s.rangeReady.len()+f.s.rangeQ.len() != 0 {
		t.Error("it is kept in a queue, and its records with it")
	}
	if records.made != 3 || len(d.Items) != 2 || r.whole || d.rng != nil || f.s.held != 3 || f.s.working != 2 || f.s.ahead != 1 {
		t.Errorf("%d are made, %d of them run, whole %v, %d held, %d work", records.made, len(d.Items), r.whole, f.s.held, f.s.working)
	}
	for _, it := range d.Items {
		if !it.holds || it.phase != running || it.Attempt() != 1 || it.Session() != f.sess || it.Ticket() != ledger.NewTicket(it.Key.Sum(), 7) {
			t.Errorf("%+v", it.state)
		}
	}
}

// A range of which the ledger wants each message by itself is settled so at once.
func TestPartsAreSettledAtOnce(t *testing.T) {
	f := asking()
	f.cost = 1
	offers(f, "a", 3)
	var c Claim
	f.NextClaim(0, &c)
	f.ClaimedRanges(0, &c, []uint64{7})
	_, p := f.Next(0, 0)
	d := f.Begin(0, p)
	if !f.EndedRange(0, d, true) {
		t.Fatal("it is a range no more")
	}
	f.Free(d)
	var b Batch
	if !f.NextSettle(0, &b) || len(b.Ranges) != 1 || b.Messages() != 3 {
		t.Fatalf("%d ranges are settled", len(b.Ranges))
	}
	f.Settled(0, &b, []error{ledger.ErrParts}, nil)
	if f.SettleOver(0, &b); !f.NextSettle(0, &b) || len(b.Items) != 3 {
		t.Errorf("%d are settled one by one, want 3", len(b.Items))
	}
}

// An item expands the ranges of its log, and those of the log in which its key lies; beside items of their log that wait, ranges
// are items from the beginning.
func TestItemsExpandRangesOfTheirLogs(t *testing.T) {
	for log, whole := range map[string]bool{"a": false, "b": false, "c": true} {
		f := asking()
		r := offers(f, log, 3)
		it := recordItem("a", 100)
		it.Log = "b"
		if f.Offer(0, it); r.whole != whole {
			t.Errorf("the range of log %s is whole: %v", log, r.whole)
		}
	}
	for _, stalled := range []bool{false, true} {
		f := asking()
		f.cost = 1
		it := recordItem("a", 100)
		f.Offer(0, it)
		if stalled {
			f.s.hold(it, time.Second)
		}
		r := &Range{Records: &logRecords{size: 1}, Len: 3, Claim: ledger.Stretch{First: ledger.Entry{Key: recordItem("a", 0).Key}, Last: 2}}
		if f.OfferRange(0, r); r.whole == stalled {
			t.Errorf("beside an item that waits %v: whole %v", stalled, r.whole)
		}
	}
}

// Of an ordered log the next range runs as soon as the one before it is done, and one that is not through runs on.
func TestNextPartRunsAfterTheOneBefore(t *testing.T) {
	f := asking()
	f.cost = 1
	all := []*Range{offers(f, "a", 2), offers(f, "a", 1)}
	for _, r := range all {
		r.Ordered = true
	}
	var c Claim
	f.NextClaim(0, &c)
	f.ClaimedRanges(0, &c, []uint64{7, 8})
	for i, want := range []Part{{all[0], 0, 1}, {all[0], 1, 2}, {all[1], 0, 1}} {
		_, p := f.Next(0, 0)
		if p.Range != want.Range || p.From != want.From {
			t.Fatalf("%d: %d to %d are next", i, p.From, p.To)
		}
		p.To = want.To
		d := f.Begin(0, p)
		if _, beside := f.Next(0, 0); d == nil || beside.Range != nil {
			t.Fatalf("%d: another runs beside it", i)
		}
		f.EndedRange(0, d, true)
		f.Free(d)
	}
}
