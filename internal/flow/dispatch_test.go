package flow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// readied is a flow with messages of the given sizes ready to start.
func readied(cfg Config, sizes ...int64) *Flow {
	cfg.Concurrency = max(cfg.Concurrency, 1)
	f := joined(cfg)
	for i, n := range sizes {
		it := &Item{Size: n}
		it.Key.ID = []byte{byte(i), byte(i >> 8)}
		f.enlist(it)
		f.s.add(it)
		it.sess = f.sess
		f.s.setPhase(it, claimed)
		f.s.readyQ.push(it)
	}
	return f
}

func repeat(n int, size int64) []int64 { return slices.Repeat([]int64{size}, n) }

// How many messages a goroutine takes follows from how long handlers took of late, and is bounded in number and bytes.
func TestHowMuchAGoroutineTakes(t *testing.T) {
	for name, c := range map[string]struct {
		cost    time.Duration
		limited bool
		idle    int
		sizes   []int64
		want    int
	}{
		"nothing is known":       {0, false, 0, repeat(100, 10), 1},
		"no time":                {1, false, 7, repeat(100, 10), dispatchItems},
		"fewer than that":        {1, false, 0, repeat(5, 10), 5},
		"5 µs":                   {5 * time.Microsecond, false, 7, repeat(100, 10), 40},
		"20 µs":                  {20 * time.Microsecond, false, 0, repeat(100, 10), 10},
		"20 µs, others idle":     {20 * time.Microsecond, false, 7, repeat(24, 10), 3},
		"a millisecond":          {time.Millisecond, false, 0, repeat(100, 10), 1},
		"limited":                {1, true, 0, repeat(100, 10), 1},
		"large bodies":           {1, false, 0, repeat(100, 40<<10), 4},
		"huge bodies":            {1, false, 0, repeat(100, 1<<20), 1},
		"a large one among them": {1, false, 0, append([]int64{10, 10, dispatchBytes}, repeat(20, 10)...), 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := readied(Config{LimitStarts: c.limited}, c.sizes...)
			f.cost = c.cost
			if got := len(f.takeReady(c.idle)); got != c.want {
				t.Errorf("takes %d, want %d", got, c.want)
			}
		})
	}
}

// A goroutine takes bodies up to its bound of bytes: the one with which the bound is reached is the last.
func TestTakesNoMoreBytesThanItsBound(t *testing.T) {
	f := readied(Config{}, dispatchBytes/2, dispatchBytes/2, 10)
	f.cost = 1
	if got := len(f.takeReady(0)); got != 2 {
		t.Errorf("takes %d, want 2", got)
	}
}

// An item that lost its place and got it back stands twice among what is ready: it was run twice.
func TestNothingIsTakenTwice(t *testing.T) {
	f := readied(Config{}, repeat(10, 10)...)
	for _, it := range f.s.readyQ.buf[:5:5] {
		f.s.readyQ.push(it)
		f.s.readyQ.pushFront(it)
	}
	f.cost = 1
	if got := len(f.takeReady(0)); got != 10 {
		t.Errorf("took %d of 10", got)
	}
}

// What spoilt a batch runs alone, wherever it stands among what is ready.
func TestSingleMessagesAreTakenAlone(t *testing.T) {
	f := readied(Config{Batch: true, BatchSize: 10}, repeat(7, 10)...)
	for _, i := range []int{1, 4, 5} {
		f.s.readyQ.buf[i].Single()
	}
	var got []int
	for items := f.takeReady(0); len(items) > 0; items = f.takeReady(0) {
		got = append(got, len(items))
	}
	if fmt.Sprint(got) != "[1 1 2 1 1 1]" {
		t.Errorf("taken as %v", got)
	}
}

// What a goroutine will not begin is ready for others, before all else and in its order, and there is nothing left to recall.
func TestWhatIsTakenBackIsReady(t *testing.T) {
	f := readied(Config{}, repeat(10, 10)...)
	f.cost = 1
	d, _ := f.Next(0, 0)
	if d == nil || len(d.Items) != 10 || !f.Watched() {
		t.Fatalf("%+v is dispatched, want all 10", d)
	}
	began := d.Items[0]
	f.Stuck(0, d)
	f.Stuck(0, d) // is not asked for twice
	if c := commands(f); len(c.Recall) != 1 || c.Recall[0] != d {
		t.Fatalf("%d are to be recalled, want the one", len(c.Recall))
	}
	f.Recalled(d, 1)
	if n := f.s.readyQ.len(); n != 9 || f.watched != 0 || d.Limit() != 1 || began.phase != running || began.dispatch == nil {
		t.Errorf("%d are ready, %d dispatches to take from, %d are left of this one", n, f.watched, d.Limit())
	}
	for i := 1; i < 10; i++ {
		if it := f.s.readyQ.pop(); it.Key.ID[0] != byte(i) || it.dispatch != nil || it.phase != claimed {
			t.Errorf("at %d: %v, dispatched %v, phase %d", i, it.Key.ID, it.dispatch != nil, it.phase)
		}
	}
	f.Stuck(0, d)
	if c := commands(f); len(c.Recall) != 0 {
		t.Error("it is recalled again, although nothing is left to begin")
	}
}

// Where what is ours and does not begin must not stay ours, what is taken back from a handler is given back to the ledger.
func TestTakenBackIsReleasedUnderPark(t *testing.T) {
	for _, park := range []bool{false, true} {
		f := readied(Config{Park: park}, 1, 1, 1)
		f.cost = 1
		items := f.takeReady(0)
		d := f.newDispatch(0, items)
		f.Recalled(d, 1) // the first has begun
		if given, ready := f.settleQ.len(), f.s.readyQ.len(); given+ready != 2 || (given == 2) != park || items[0].phase != running {
			t.Errorf("park %v: %d are given back, %d are ready for others", park, given, ready)
		}
	}
}

// What is taken back while it is not to run is given back to the ledger, and of a session that is lost it is asked for anew:
// it would stand in hand as ours else, and nobody would run it.
func TestTakenBackWhileNothingRuns(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(f *Flow, it *Item)
		released bool
		phase    phase
	}{
		"nothing":        {func(*Flow, *Item) {}, false, claimed},
		"breaker open":   {func(f *Flow, _ *Item) { f.breaker.open = true }, true, settling},
		"budget spent":   {func(f *Flow, _ *Item) { f.budget.stops = true }, true, settling},
		"by an operator": {func(f *Flow, _ *Item) { f.order.stops = true }, true, settling},
		"draining":       {func(f *Flow, _ *Item) { f.draining = true }, true, settling},
		"dropped":        {func(_ *Flow, it *Item) { it.dropped = true }, true, settling},
		"alone":          {func(_ *Flow, it *Item) { it.solo = true }, true, settling},
		"lost":           {func(_ *Flow, it *Item) { it.sess.lost = true }, false, queued},
		"lost, its copy": {func(_ *Flow, it *Item) { it.sess.lost, it.dropped = true, true }, false, finished},
	} {
		f := readied(Config{}, 1)
		items := f.takeReady(0)
		d := f.newDispatch(0, items)
		it := d.Items[0]
		c.change(f, it)
		if f.Recalled(d, 0); it.phase != c.phase || (f.settleQ.len() == 1) != c.released {
			t.Errorf("%s: it is in phase %d, want %d; %d are released", name, it.phase, c.phase, f.settleQ.len())
		}
	}
}

// What becomes of an item whose turn came when it was not to run any more, or of which only the ledger knows whose it is.
func TestWhatDoesNotBegin(t *testing.T) {
	for name, c := range map[string]struct {
		o        Outcome
		change   func(f *Flow, it *Item)
		phase    phase
		released bool
	}{
		"not alive":               {Outcome{Skip: NotAlive}, nil, settling, true},
		"called off":              {Outcome{Skip: CalledOff}, nil, settling, true},
		"after the lease":         {Outcome{Skip: LeaseOver}, nil, waiting, false},
		"after the lease, copy":   {Outcome{Skip: LeaseOver}, func(_ *Flow, it *Item) { it.dropped = true }, settling, true},
		"not alive, lost":         {Outcome{Skip: NotAlive}, func(_ *Flow, it *Item) { it.sess.lost = true }, queued, false},
		"called off, lost":        {Outcome{Skip: CalledOff}, func(_ *Flow, it *Item) { it.sess.lost = true }, queued, false},
		"after the lease, drain":  {Outcome{Skip: LeaseOver}, func(f *Flow, _ *Item) { f.draining = true }, settling, true},
		"uncertain":               {Outcome{Ask: true}, nil, waiting, false},
		"uncertain, drain":        {Outcome{Ask: true}, func(f *Flow, _ *Item) { f.draining = true }, finished, false},
		"once more":               {Outcome{Again: true}, nil, claimed, false},
		"once more, paused, park": {Outcome{Again: true}, func(f *Flow, _ *Item) { f.paused, f.cfg.Park = true, true }, settling, true},
		"once more, an operator":  {Outcome{Again: true}, func(f *Flow, _ *Item) { f.order.stops = true }, settling, true},
		"once more, lost":         {Outcome{Again: true}, func(_ *Flow, it *Item) { it.sess.lost = true }, queued, false},
	} {
		f := readied(Config{}, 1)
		d := f.newDispatch(0, f.takeReady(0))
		it := d.Items[0]
		if c.change != nil {
			c.change(f, it)
		}
		f.Ran(0, d, c.o)
		if it.phase != c.phase || (f.settleQ.len() == 1) != c.released || it.dispatch != nil || d.Applied() != 1 {
			t.Errorf("%s: it is in phase %d, want %d; %d are released", name, it.phase, c.phase, f.settleQ.len())
		}
		if c.released && f.settleQ.pop().Kind != ledger.Release {
			t.Errorf("%s: it is settled", name)
		}
	}
}

// Slow handlers make a goroutine take one message soon; fast ones bring it back to many. One dispatch that takes long says nothing: the system
// may have held its goroutine up.
func TestCostFollowsTheHandlers(t *testing.T) {
	f := readied(Config{})
	feel := func(each time.Duration, n int) { f.Took(&Dispatch{limit: n}, time.Duration(n)*each, false) }
	feel(time.Microsecond, 1)
	if f.cost != time.Microsecond {
		t.Errorf("the first: %s", f.cost)
	}
	feel(50*time.Millisecond, 1)
	if n := f.dispatchSize(0); n != dispatchItems {
		t.Errorf("after a slow one among fast ones a goroutine takes %d", n)
	}
	feel(50*time.Millisecond, 1)
	if n := f.dispatchSize(0); n != 1 {
		t.Errorf("after two slow ones in a row a goroutine takes %d", n)
	}
	for i := 0; f.cost > spread; i++ {
		if feel(time.Microsecond, 1); i == 100 {
			t.Fatalf("still %s after 100 fast ones", f.cost)
		}
	}
	cost := f.cost
	feel(time.Hour, 0) // nothing of it began
	if f.cost != cost {
		t.Error("a dispatch that did nothing counts")
	}
}

// A call of a batch handler counts as one, and a whole range that pauses says that the system does: it counts eight times of
// late at most.
func TestCostOfABatchAndOfARange(t *testing.T) {
	f := readied(Config{})
	f.cost, f.took = time.Millisecond, time.Hour
	if f.Took(&Dispatch{limit: 10, Together: true}, 5*time.Millisecond, false); f.cost != 2*time.Millisecond {
		t.Errorf("after a batch of 5 ms: %s, want 2ms", f.cost)
	}
	f.took = time.Hour
	if f.Took(&Dispatch{limit: 10}, time.Hour, true); f.cost != 2*time.Millisecond+14*time.Millisecond/4 {
		t.Errorf("after a range of an hour: %s", f.cost)
	}
}

// What stands behind a record of an ordered range waits for it, whoever would run it.
func TestPatienceWithOrderedRanges(t *testing.T) {
	for want, d := range map[int]*Dispatch{1: {}, 10: {rng: &Range{Ordered: true}}} {
		if d.Patience() != want {
			t.Errorf("%+v: %d, want %d", d.rng, d.Patience(), want)
		}
	}
	if d := (&Dispatch{rng: &Range{}}); d.Patience() != 1 {
		t.Errorf("a range without order: %d", d.Patience())
	}
}

// Dispatches, against a list of them: those that are out are known, each at its place, and one that is used again has nothing
// of what it was.
func TestDispatchesAgainstAList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 41))
		f := readied(Config{Concurrency: 8})
		var out []*Dispatch
		for i := range 200 {
			if r.IntN(2) == 0 || len(out) == 0 {
				var items []*Item
				for n := range 1 + r.IntN(5) {
					it := plainItem("", fmt.Sprint(i, " ", n))
					f.s.enter(it)
					it.sess = f.sess
					items = append(items, it)
				}
				d := f.newDispatch(time.Duration(i), items)
				if !slices.Equal(d.Items, items) || d.Limit() != len(items) || d.Applied() != 0 || d.recalled || d.Of != nil || d.rng != nil || d.born != time.Duration(i) {
					t.Fatalf("seed %d: a new dispatch of %d items: %+v", seed, len(items), d)
				}
				d.Of = i
				out = append(out, d)
			} else {
				at := r.IntN(len(out))
				if d := out[at]; d.Limit() == len(d.Items) && r.IntN(2) == 0 {
					f.Recalled(d, r.IntN(len(d.Items)))
				}
				array := out[at].Items
				f.Free(out[at])
				if array[0] != nil {
					t.Fatalf("seed %d: what was dispatched is kept", seed)
				}
				out = slices.Delete(out, at, at+1)
			}
			watched := 0
			for _, d := range out {
				if f.dispatches[d.at] != d {
					t.Fatalf("seed %d: a dispatch is not at its place", seed)
				}
				if len(d.Items) > 1 && d.Limit() == len(d.Items) {
					watched++
				}
			}
			if len(f.dispatches) != len(out) || f.watched != watched {
				t.Fatalf("seed %d: %d are out, %d watched, want %d, %d", seed, len(f.dispatches), f.watched, len(out), watched)
			}
		}
	}
}
