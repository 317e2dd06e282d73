package flow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// Ranges of a log are claimed in one call at a time: a range whose log is being claimed waits in the queue, not in a call that
// would wait in the ledger with the ranges of other logs. Those of one log that stand there together go together.
func TestRangesOfALogAreClaimedInOneCallAtATime(t *testing.T) {
	s := newSched(1)
	offer := func(log string) *Range {
		r := &Range{log: log, whole: true, Len: 10}
		s.addRange(r)
		s.rangeQ.push(r)
		return r
	}
	answered := func(r *Range) {
		s.logs[r.log].claiming--
		r.phase = claimed
	}
	take := func(n int, want ...*Range) {
		t.Helper()
		if got := s.claimableRanges(); got != 10*len(want) {
			t.Errorf("%d records may be claimed, want %d", got, 10*len(want))
		}
		if got := s.takeRanges(n, nil); !slices.Equal(got, want) {
			t.Errorf("took %v, want %v", got, want)
		}
	}
	a1, a2 := offer("a"), offer("a")
	take(100, a1, a2)
	a3, b1 := offer("a"), offer("b")
	take(100, b1)
	take(100)
	answered(a1)
	take(100)
	answered(a2)
	take(100, a3)
}

// logsBook is what is in hand of all logs, in lists.
type logsBook struct {
	t      *testing.T
	s      *sched
	r      *rand.Rand
	items  []*Item
	ranges []*Range // in the order in which they were offered
	queue  []*Range // of them, those that are to be claimed
}

// of says how many items lie in a log, or in its order, how many of these wait, and what ranges there are.
func (b *logsBook) of(log string) (items, stalled int, ranges []*Range, claimings int) {
	for _, it := range b.items {
		if it.Log == log || it.Key.Pos != nil && it.Key.Pos.Log == log {
			items++
			if it.phase == waiting {
				stalled++
			}
		}
	}
	for _, r := range b.ranges {
		if r.log == log {
			ranges = append(ranges, r)
			if r.phase == claiming {
				claimings++
			}
		}
	}
	return items, stalled, ranges, claimings
}

// mayBeClaimed is a range of whose log nothing is in hand but ranges that are to be claimed, or are ours.
func (b *logsBook) mayBeClaimed(r *Range) bool {
	items, _, _, claimings := b.of(r.log)
	return items == 0 && claimings == 0
}

func (b *logsBook) offerItem() {
	logs := []string{"", "a", "b", "c"}
	it := plainItem("", fmt.Sprint(len(b.items), b.r.Uint64()))
	it.Log = logs[b.r.IntN(4)]
	if key := logs[b.r.IntN(4)]; key != "" {
		it.Key.Pos = &ledger.Position{Log: key, Offset: b.r.Int64N(1000)}
	}
	b.s.enter(it)
	b.items = append(b.items, it)
}

func (b *logsBook) offerRange() {
	r := &Range{log: []string{"a", "b", "c"}[b.r.IntN(3)], whole: true, Len: 1 + b.r.IntN(20), bytes: b.r.Int64N(100)}
	b.s.addRange(r)
	b.s.rangeQ.push(r)
	b.ranges, b.queue = append(b.ranges, r), append(b.queue, r)
}

func (b *logsBook) claim(n int) {
	var want, rest []*Range
	for _, r := range b.queue {
		taken := 0
		for _, w := range want {
			taken += w.Len
		}
		if taken < n && b.mayBeClaimed(r) {
			want = append(want, r)
		} else {
			rest = append(rest, r)
		}
	}
	if got := b.s.takeRanges(n, nil); !slices.Equal(got, want) {
		b.t.Fatalf("%d ranges are claimed, want %d", len(got), len(want))
	}
	b.queue = rest
}

func (b *logsBook) drop(r *Range) {
	b.s.dropRange(r)
	is := func(o *Range) bool { return o == r }
	b.ranges, b.queue = slices.DeleteFunc(b.ranges, is), slices.DeleteFunc(b.queue, is)
}

func (b *logsBook) step() {
	var it *Item
	var r *Range
	if len(b.items) > 0 {
		it = b.items[b.r.IntN(len(b.items))]
	}
	if len(b.ranges) > 0 {
		r = b.ranges[b.r.IntN(len(b.ranges))]
	}
	switch n := b.r.IntN(12); {
	case n == 0:
		b.offerItem()
	case n < 4:
		b.offerRange()
	case n < 6:
		b.claim(1 + b.r.IntN(40))
	case n < 8 && r != nil && r.phase == claiming:
		b.s.logs[r.log].claiming--
		r.phase = claimed
	case n == 8 && r != nil:
		b.drop(r)
	case n == 9 && it != nil && it.phase == queued:
		b.s.hold(it, 1)
	case n >= 10 && it != nil:
		b.s.remove(it)
		b.items = slices.DeleteFunc(b.items, func(o *Item) bool { return o == it })
	}
}

func (b *logsBook) check() (claimable int) {
	held, ahead, bytes, known := len(b.items), 0, int64(0), 0
	for _, r := range b.ranges {
		held, bytes = held+r.Len, bytes+r.bytes
		if r.phase == claiming || r.phase == claimed {
			ahead += r.Len
		}
	}
	for _, r := range b.queue {
		if b.mayBeClaimed(r) {
			claimable += r.Len
		}
	}
	if b.s.held != held || b.s.ahead != ahead || b.s.bytes.Total() != bytes || b.s.claimableRanges() != claimable {
		b.t.Fatalf("held %d, ahead %d, bytes %d, claimable %d, want %d, %d, %d, %d", b.s.held, b.s.ahead, b.s.bytes.Total(),
			b.s.claimableRanges(), held, ahead, bytes, claimable)
	}
	for _, log := range []string{"a", "b", "c"} {
		items, stalled, ranges, claimings := b.of(log)
		l := b.s.logs[log]
		if items+len(ranges) == 0 {
			if l != nil {
				b.t.Fatalf("log %s is remembered, of which nothing is in hand", log)
			}
			continue
		}
		known++
		if l == nil || l.items != items || l.stalled != stalled || l.claiming != claimings || !slices.Equal(l.ranges, ranges) {
			b.t.Fatalf("log %s: %+v, want %d items, %d stalled, %d claiming, %d ranges", log, l, items, stalled, claimings, len(ranges))
		}
	}
	if names := b.s.logs.names(); len(names) != known || !slices.IsSorted(names) {
		b.t.Fatalf("the logs are %v, want %d", names, known)
	}
	return claimable
}

// What is in hand of each log, against lists of all items and ranges:
//   - an item is of the log in whose order it is, and of the one in which its key lies, once where they are one;
//   - a range may be claimed if no item of its log is in hand and no range of it is being claimed, and not else;
//   - those that may are claimed in the order in which they were offered, one at least, until there are enough;
//   - a log's ranges stand in the order in which they were offered, whatever is let go of among them;
//   - how many are held, ahead, stalled and being claimed is what a count says;
//   - a log of which nothing is in hand is forgotten, and no other.
func TestLogsAgainstLists(t *testing.T) {
	t.Parallel()
	some, none := 0, 0
	for seed := range uint64(50) {
		b := &logsBook{t: t, s: newSched(seed), r: rand.New(rand.NewPCG(seed, 37))}
		for range 300 {
			b.step()
			if n := b.check(); n > 0 {
				some++
			} else if len(b.queue) > 0 {
				none++
			}
		}
	}
	if some < 1000 || none < 1000 {
		t.Errorf("%d times some may be claimed, %d times none: too little happened", some, none)
	}
}

// Of ordered ranges the first that is not over may run, of others each, and none that runs or is listed already.
func TestOrderedRangesRunOneAfterTheOther(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		s := newSched(1)
		var all []*Range
		for range 4 {
			r := &Range{log: "a", whole: true, Len: 5, Ordered: ordered, phase: claimed}
			s.addRange(r)
			all = append(all, r)
		}
		all[0].phase = settling
		s.mayRun("a")
		s.mayRun("a")
		s.mayRun("b") // nothing is in hand of it
		want := 3
		if ordered {
			want = 1
		}
		if s.rangeReady.len() != want || s.rangeReady.buf[0] != all[1] {
			t.Fatalf("ordered %v: %d may run, want %d", ordered, s.rangeReady.len(), want)
		}
		s.rangeReady.pop()
		all[1].listed, all[1].dispatch = false, &Dispatch{}
		before := s.rangeReady.len()
		if s.mayRun("a"); s.rangeReady.len() != before {
			t.Errorf("ordered %v: beside one that runs %d more may run", ordered, s.rangeReady.len()-before)
		}
		all[1].phase, all[1].dispatch = settling, nil
		if s.mayRun("a"); ordered && (s.rangeReady.len() != 1 || s.rangeReady.pop() != all[2]) {
			t.Error("the next does not run when the one before it is over")
		}
	}
}
