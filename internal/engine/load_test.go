package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.uber.org/goleak"
)

// gauge counts how many handlers run at once, at most.
type gauge struct{ now, most, total atomic.Int64 }

func (g *gauge) hold(d time.Duration) {
	n := g.now.Add(1)
	g.total.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	time.Sleep(d)
	g.now.Add(-1)
}

func TestRoomCountsItemsAndBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.MaxHeld, o.MaxHeldBytes = 10, 100
		hold := make(chan struct{})
		e, b := begin(t, memory.New(), o, func(context.Context, *consumer.Message) error { <-hold; return nil })
		room := func(items int, bytes int64) {
			t.Helper()
			if n, size := e.Room(); n != items || size != bytes {
				t.Errorf("room for %d items and %d bytes, want %d and %d", n, size, items, bytes)
			}
		}
		room(10, 100)
		in := items(6, noLane)
		for _, it := range in {
			it.Msg.Body = make([]byte, 20)
		}
		e.Offer(in)
		room(4, -20) // never refused: the worker asks first
		changed := e.Changed()
		select {
		case <-changed:
			t.Error("changed for the better by an offer")
		default:
		}
		close(hold)
		synctest.Wait()
		<-changed
		room(10, 100)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// Slots that become idle because what wanted them is busy elsewhere are worth a poll: whoever waits for Changed learns.
func TestChangedWhenEverythingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		e, _ := begin(t, l, o, func(context.Context, *consumer.Message) error { return nil })
		in := items(4, noLane)
		for _, it := range in {
			holdElsewhere(t, l, it)
		}
		changed := e.Changed()
		e.Offer(in)
		synctest.Wait()
		select {
		case <-changed:
		default:
			t.Errorf("not told although %d slots are idle: %+v", e.Load().Idle(o.Concurrency), e.Load())
		}
		if load := e.Load(); load.Waiting != 4 || load.Queued != 0 || load.Idle(4) != 4 {
			t.Errorf("%+v", load)
		}
		end(t, e)
	})
}

func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		e, b := begin(t, memory.New(), options(), func(context.Context, *consumer.Message) error { g.hold(time.Second); return nil })
		in := items(12, noLane)
		e.Offer(in)
		synctest.Wait()
		e.Pause()
		e.Pause()
		pass(time.Hour)
		if g.total.Load() != 4 || e.Open() || e.Load().Held != 8 || e.Health().Ready {
			t.Errorf("%d began, open %v, %+v", g.total.Load(), e.Open(), e.Load())
		}
		changed := e.Changed()
		e.Resume()
		<-changed
		pass(time.Minute)
		b.wantAcked(t, in...)
		if !e.Open() {
			t.Error("not open after Resume")
		}
		e.Pause()
		end(t, e)
	})
}

func TestRateLimitsStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		o := options()
		o.Rate = 10
		e, b := begin(t, memory.New(), o, func(context.Context, *consumer.Message) error { g.hold(0); return nil })
		in := items(1000, noLane)
		e.Offer(in)
		pass(30 * time.Second)
		if n := g.total.Load(); n < 295 || n > 305 {
			t.Errorf("%d starts in 30 s at 10 a second", n)
		}
		end(t, e) // what waits for its turn is given back
		acked := 0
		for _, it := range in {
			if b.acked(t, it) {
				acked++
			}
		}
		if int64(acked) != g.total.Load() {
			t.Errorf("%d acknowledged of %d that ran", acked, g.total.Load())
		}
	})
}

func TestLimiterIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		o := options()
		o.Concurrency, o.Limiter = 4, consumer.NewLimiter(5)
		l := memory.New()
		var engines []*engine.Engine
		var in []*engine.Item
		var brokers []*broker
		for i := range 3 {
			e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { g.hold(time.Second); return nil })
			engines, brokers = append(engines, e), append(brokers, b)
			batch := items(20, noLane)
			for _, it := range batch {
				it.Key.ID = fmt.Append(it.Key.ID, i)
			}
			in = append(in, batch...)
			e.Offer(batch)
		}
		pass(time.Minute)
		for i, b := range brokers {
			b.wantAcked(t, in[20*i:20*i+20]...)
		}
		if g.most.Load() != 5 {
			t.Errorf("%d handlers at once, the limit is 5", g.most.Load())
		}
		for _, e := range engines {
			end(t, e)
		}
	})
}

// A worker that waits for its rate holds no slot of the limiter that it shares: the other worker runs at full width.
func TestSlowRateLeavesTheLimiterToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := consumer.NewLimiter(1)
		slow, quick := options(), options()
		slow.Limiter, quick.Limiter, slow.Rate = shared, shared, 0.01
		h := func(context.Context, *consumer.Message) error { return nil }
		l := memory.New()
		se, _ := begin(t, l, slow, h)
		qe, b := begin(t, l, quick, h)
		var waits []*engine.Item
		for i := range 20 {
			waits = append(waits, item(fmt.Sprint("slow ", i), ""))
		}
		se.Offer(waits)
		pass(time.Second)
		in := items(100, noLane)
		qe.Offer(in)
		pass(time.Second)
		b.wantAcked(t, in...)
		end(t, se)
		end(t, qe)
	})
}

// A message first handled shortly before the broker forgets it: an attempt whose next one would come too late is the
// last one, and it is archived, not lost.
func TestPitfall88_ArchivedBeforeTheBrokerForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		o.Attempts = 1000
		var last time.Time
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error {
			last = time.Now()
			return consumer.RetryAfter(errBoom, 7*time.Minute)
		})
		it := item("one", "")
		it.Deadline = time.Now().Add(time.Hour)
		e.Offer([]*engine.Item{it})
		pass(2 * time.Hour)
		b.wantAcked(t, it)
		rec := state(t, l, it)
		if rec.State != ledger.Failed || rec.Archived[0].Kind != ledger.KindDeadline || string(rec.Archived[0].Body) != "body of one" {
			t.Errorf("%+v", rec)
		}
		if left := it.Deadline.Sub(last); left < 0 || left > 8*time.Minute {
			t.Errorf("the last attempt was %s before the deadline", left)
		}
		end(t, e)
	})
}

// A backfill with timestamps of 2019: no message is treated as past its deadline; each has all its attempts.
func TestPitfall109_DeadlineThatHadPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		o.Attempts = 3
		e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
			if m.ID == "bad" || m.Attempt < 3 {
				return errBoom
			}
			return nil
		})
		good, bad := item("good", ""), item("bad", "")
		for _, it := range []*engine.Item{good, bad} {
			it.Deadline = time.Now().AddDate(-7, 0, 0)
		}
		e.Offer([]*engine.Item{good, bad})
		pass(time.Hour)
		b.wantAcked(t, good, bad)
		if rec := state(t, l, good); rec.State != ledger.Succeeded {
			t.Errorf("%+v", rec)
		}
		if rec := state(t, l, bad); rec.State != ledger.Failed || rec.Archived[0].Kind != ledger.KindExhausted || rec.Archived[0].Attempts != 3 {
			t.Errorf("%+v", rec)
		}
		end(t, e)
	})
}

// A thousand workers start, work and stop; nothing of them is left.
func TestPitfall69_StartStopLeaksNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l := memory.New()
	for i := range 1000 {
		var once sync.Once
		ran := make(chan struct{})
		e, _ := begin(t, l, options(), func(context.Context, *consumer.Message) error { once.Do(func() { close(ran) }); return nil })
		e.Offer(items(3, noLane)[:i%4])
		if i%4 > 0 && i < 4 {
			<-ran
		}
		end(t, e)
	}
}

// What is taken back while it waits for the rate uses up no turn of it: after three drops that concerned nothing, sixteen
// handlers had forty-eight empty turns before them, and no message began for as long.
func TestTakenBackUsesNoTurnOfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			rate  float64
			every time.Duration // between two drops
		}{
			{1, 10 * time.Second},
			{0.01, 30 * time.Second}, // more often than a turn comes
		} {
			var g gauge
			o := options()
			o.Rate, o.Concurrency = c.rate, 16
			e, _ := begin(t, memory.New(), o, func(context.Context, *consumer.Message) error { g.hold(0); return nil })
			e.Offer(items(60, noLane))
			turns := 40
			for range time.Duration(float64(turns)/c.rate) * time.Second / c.every {
				pass(c.every)
				e.Drop(func(*engine.Item) bool { return false }, time.Second)
				if c.rate == 1 {
					e.Pause()
					e.Resume()
				}
			}
			if n := g.total.Load(); n < int64(turns)-2 || n > int64(turns)+2 {
				t.Errorf("%d starts in the time for %d at %v a second", n, turns, c.rate)
			}
			end(t, e)
		}
	})
}

// A suspect that is dropped while it waits for its turn leaves the turn to others.
func TestSuspectThatIsGoneLeavesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		it := item("suspect", "")
		crashTwice(t, l, it)
		o := options()
		o.Rate = 0.01
		var g gauge
		e, _ := begin(t, l, o, func(context.Context, *consumer.Message) error { g.hold(0); return nil })
		e.Offer([]*engine.Item{item("first", "")})
		pass(time.Second)
		e.Offer([]*engine.Item{it})
		pass(50 * time.Second)
		e.Drop(func(dropped *engine.Item) bool { return dropped == it }, time.Second)
		pass(100 * time.Second)
		if n := g.total.Load(); n != 1 {
			t.Errorf("%d starts, want the first alone", n)
		}
		e.Offer([]*engine.Item{item("second", "")})
		pass(time.Second)
		if n := g.total.Load(); n != 2 {
			t.Errorf("%d starts, want the second in the suspect's turn", n)
		}
		end(t, e)
	})
}

// A suspect that waits for the limiter is not claimed yet: it would count a crash for each process that dies meanwhile.
func TestSuspectIsClaimedInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		it := item("suspect", "")
		crashTwice(t, l, it)
		before := state(t, l, it)
		o := options()
		o.Limiter = consumer.NewLimiter(1)
		if err := o.Limiter.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ran := false
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { ran = true; return nil })
		e.Offer([]*engine.Item{it})
		pass(time.Hour)
		if rec := state(t, l, it); ran || rec.Token != before.Token || rec.Crashes != before.Crashes {
			t.Errorf("ran %v, %+v; want it as it was while the limiter is full: %+v", ran, rec, before)
		}
		o.Limiter.Release()
		pass(time.Minute)
		b.wantAcked(t, it)
		if err := o.Limiter.Acquire(t.Context()); err != nil { // it was given back, once
			t.Error(err)
		}
		end(t, e)
	})
}
