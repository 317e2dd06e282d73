package flow

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// begun takes dispatches until there are none.
func begun(f *Flow, now time.Duration) (all []*Dispatch) {
	for d, _ := f.Next(now, 0); d != nil; d, _ = f.Next(now, 0) {
		all = append(all, d)
	}
	return all
}

// over ends dispatches, each item with an outcome.
func over(f *Flow, now, took time.Duration, all []*Dispatch, o Outcome) {
	for _, d := range all {
		for range d.Limit() {
			f.Ran(now, d, o)
		}
		f.Measured(now, d, took, false)
		f.Free(d)
	}
	commands(f)
}

func adapted(cfg Config, messages int) *Flow {
	cfg.BatchSize = max(cfg.BatchSize, 1)
	return readied(cfg, repeat(messages, 10)...)
}

// grow has handlers do well until the limit is as high as it may be.
func grow(t *testing.T, f *Flow, now time.Duration) time.Duration {
	t.Helper()
	for range 5000 {
		all := begun(f, now)
		if f.Concurrency() == f.cfg.Concurrency || len(all) == 0 {
			over(f, now, 1, all, Outcome{})
			break
		}
		now += 10 * time.Millisecond
		over(f, now, 10*time.Millisecond, all, Outcome{})
	}
	if f.Concurrency() != f.cfg.Concurrency {
		t.Fatalf("the limit has grown to %d, of %d", f.Concurrency(), f.cfg.Concurrency)
	}
	return now
}

var burdened = Outcome{More: &ledger.Settlement{Kind: ledger.Release, Count: true, Failure: ledger.AttemptError{Attempt: 1, Kind: ledger.KindError, Error: "full"}}, Burdens: true}

// So many handlers begin as the limit allows, and no goroutine is woken for more. Without a limit all begin: the pool is the limit.
func TestNoMoreHandlersThanTheLimit(t *testing.T) {
	f := adapted(Config{MinConcurrency: 3, Concurrency: 8}, 5000)
	if n := f.Ready(); n != 3 {
		t.Errorf("%d are ready, of a limit of 3", n)
	}
	if n := len(begun(f, 0)); n != 3 || f.Ready() != 0 {
		t.Errorf("%d begin and %d are ready, of a limit of 3", n, f.Ready())
	}
	if f := adapted(Config{Concurrency: 2}, 5); len(begun(f, 0)) != 5 {
		t.Error("without a limit the pool says how many begin")
	}
}

// What runs beside the pool takes no place of it, and says nothing of the load.
func TestBesideThePool(t *testing.T) {
	f := adapted(Config{MinConcurrency: 1, Concurrency: 8}, 3)
	alone := f.Alone(0, f.s.readyQ.pop())
	if n := len(begun(f, 0)); n != 1 {
		t.Fatalf("%d begin beside one that runs alone, of a limit of 1", n)
	}
	f.Ran(0, alone, burdened)
	f.Measured(0, alone, time.Hour, false)
	if f.Free(alone); f.beside != 0 || alone.called.counts {
		t.Errorf("%d run beside the pool", f.beside)
	}
}

// The limit grows while calls go well. When most fail it shrinks to its least, where none begins before a pause is over; the news say so
// once, and once that it is over.
func TestShrinksAndRests(t *testing.T) {
	f := adapted(Config{MinConcurrency: 2, Concurrency: 32}, 9000)
	now := grow(t, f, 0)
	var news []What
	note := func() {
		for _, n := range f.End().News {
			if n.What == Strained || n.What == Relieved {
				news = append(news, n.What)
			}
		}
		f.cmd.Reset()
	}
	step := func(o Outcome) int {
		f.Wake(now)
		all := begun(f, now)
		now += 10 * time.Millisecond
		for _, d := range all {
			f.Ran(now, d, o)
			f.Measured(now, d, 10*time.Millisecond, false)
			note()
			f.Free(d)
		}
		note()
		return len(all)
	}
	rests, calls := 0, 0
	for range 1000 {
		n := step(burdened)
		if n == 0 {
			rests++
		}
		calls += n
	}
	if strained, _ := f.Strained(); !strained || now >= f.Excused() || f.Concurrency() != 2 || rests < 900 || calls > 400 {
		t.Errorf("of 10 s of failures: %d calls, %d steps without, the limit is %d", calls, rests, f.Concurrency())
	}
	for range 3000 {
		step(Outcome{})
	}
	if strained, _ := f.Strained(); strained || f.Excused() != 0 || f.Concurrency() != 32 {
		t.Errorf("after 30 s of success the limit is %d, strained %v", f.Concurrency(), strained)
	}
	if len(news) != 2 || news[0] != Strained || news[1] != Relieved {
		t.Errorf("told of %v", news)
	}
}

// What says nothing of the load moves no limit: a message that is put off, or fails for good, or is taken back.
func TestWhatSaysNothingOfTheLoad(t *testing.T) {
	for name, o := range map[string]Outcome{
		"put off":    {More: &ledger.Settlement{Kind: ledger.Release, After: time.Second}},
		"for good":   {More: &ledger.Settlement{Kind: ledger.Fail, Dead: &ledger.Archive{}}},
		"taken back": {Skip: NotAlive},
		"in doubt":   {Ask: true},
	} {
		f := adapted(Config{MinConcurrency: 2, Concurrency: 8}, 3000)
		now := grow(t, f, 0)
		for range 100 {
			all := begun(f, now)
			now += time.Second
			over(f, now, time.Second, all, o)
		}
		if f.Concurrency() != 8 || f.Excused() != 0 {
			t.Errorf("%s: the limit is %d of 8", name, f.Concurrency())
		}
	}
}

// A batch is one call: it has failed if at least half of its messages have.
func TestABatchIsOneCall(t *testing.T) {
	for _, c := range []struct{ well, failed, calls, wantFailed int }{{0, 0, 0, 0}, {3, 0, 1, 0}, {3, 1, 1, 0}, {2, 2, 1, 1}, {0, 4, 1, 1}} {
		d := &Dispatch{Together: true, called: called{well: c.well, failed: c.failed, inTx: c.well}, applied: 4}
		s := d.sample(time.Second)
		if s.Calls != c.calls || s.Failed != c.wantFailed || c.calls > 0 && s.Took != time.Second {
			t.Errorf("%d well and %d failed make %+v", c.well, c.failed, s)
		}
	}
	d := &Dispatch{called: called{well: 2, failed: 1}, applied: 4}
	if s := d.sample(4 * time.Second); s.Calls != 3 || s.Failed != 1 || s.Took != 3*time.Second {
		t.Errorf("three calls of four that say something make %+v", s)
	}
}

// Parts of ranges count from when they are handed out.
func TestPartsTakeAPlace(t *testing.T) {
	f := adapted(Config{MinConcurrency: 1, Concurrency: 8}, 0)
	r := &Range{log: "log", whole: true, phase: claimed, Len: 4, Records: &logRecords{size: 1}, sess: f.sess}
	f.s.addRange(r)
	f.s.rangeReady.push(r)
	_, p := f.Next(0, 0)
	if p.Range == nil || f.room() != 0 {
		t.Fatalf("part %+v, room for %d", p, f.room())
	}
	d := f.Begin(0, p)
	if f.room() != 0 || f.handed != 0 || !d.called.counts {
		t.Errorf("room for %d, %d handed out", f.room(), f.handed)
	}
}

// Where handlers are admitted one at a time, their time begins then: what they wait for is not theirs.
func TestAdmittedHandlersBeginThen(t *testing.T) {
	f := adapted(Config{MinConcurrency: 1, Concurrency: 8, LimitStarts: true}, 2)
	all := begun(f, 0)
	if len(all) != 1 || all[0].called.counts {
		t.Fatalf("%d begin, and count", len(all))
	}
	if f.Admitted(time.Second, all[0]); !all[0].called.counts {
		t.Error("an admitted handler does not count")
	}
	over(f, 2*time.Second, time.Second, all, Outcome{})
}

// A handler that was on its way when a rest began, and fails in it, makes the rest longer: whoever is woken at the end of the first one
// only would never start a handler again.
func TestPitfall231_RestThatIsProlonged(t *testing.T) {
	f := adapted(Config{MinConcurrency: 2, Concurrency: 8, LimitStarts: true}, 100)
	now, all := time.Duration(0), begun(f, 0)
	fail := func(d *Dispatch) {
		f.Admitted(now, d)
		now += 10 * time.Millisecond
		over(f, now, 10*time.Millisecond, []*Dispatch{d}, burdened)
	}
	late := all[1]
	for d := all[0]; d != nil; d, _ = f.Next(now, 0) {
		fail(d)
	}
	first, rests := f.adapts.Rests()
	if fail(late); !rests {
		t.Fatal("nothing rests after failures alone")
	}
	if second, _ := f.adapts.Rests(); second <= first {
		t.Fatalf("the rest until %s is not longer, until %s", first, second)
	}
	for range 5 {
		at, ok := f.NextWake()
		if !ok {
			break
		}
		now = max(now, at)
		f.Wake(now)
		commands(f)
	}
	if n := f.Ready(); n != 2 {
		t.Errorf("%d may begin after the rest, want 2", n)
	}
}
