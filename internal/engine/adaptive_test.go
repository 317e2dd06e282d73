package engine_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// downstream has so many places, each busy for 50 ms with a call; who finds none is turned away at once.
type downstream struct {
	places, busy, most atomic.Int64
	calls, refused     atomic.Int64
}

var errFull = errors.New("503 Service Unavailable")

func (d *downstream) Handle(context.Context, *consumer.Message) error {
	d.calls.Add(1)
	n := d.busy.Add(1)
	defer d.busy.Add(-1)
	d.most.Store(max(d.most.Load(), n))
	if n > d.places.Load() {
		d.refused.Add(1)
		time.Sleep(time.Millisecond)
		return errFull
	}
	time.Sleep(50 * time.Millisecond)
	return nil
}

func adaptiveOptions() consumer.Options {
	o := options()
	o.Concurrency, o.MinConcurrency, o.Attempts, o.BackoffBase, o.BackoffMax = 64, 1, 3, 100*time.Millisecond, time.Second
	o.Breaker.Off, o.MaxHeld, o.ClaimAhead = true, 200_000, 2000
	return o
}

// Whoever has as many handlers at once whatever the downstream can take uses up attempts while it is overloaded, or away: messages fail
// for good that were never at fault. With MinConcurrency none does, and what the downstream can do is done: nine tenths of it beside a tenth
// of its capacity, and half a minute after it is back.
func TestOverloadMakesNoDeadLetters(t *testing.T) {
	for name, c := range map[string]struct {
		places int64 // of 20, for a minute
		done   int   // messages at least in that time
	}{"a tenth": {2, 2160}, "away": {0, 0}} {
		for _, batch := range []int{0, 5} {
			t.Run(name+map[int]string{0: "", 5: ", batches"}[batch], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, d := memory.New(), &downstream{}
					d.places.Store(20)
					e, _ := begin(t, l, adaptiveOptions(), d.Handle, func(c *engine.Config) {
						if batch > 0 {
							c.Handler = consumer.Batch(batch, func(ctx context.Context, ms []*consumer.Message) []error {
								errs := make([]error, len(ms))
								err := d.Handle(ctx, nil)
								for i := range errs {
									errs[i] = err
								}
								return errs
							})
						}
					})
					in := items(30_000, noLane)
					e.Offer(in)
					pass(5 * time.Second)
					d.places.Store(c.places)
					began := d.calls.Load() - d.refused.Load()
					pass(time.Minute)
					if n := int(d.calls.Load() - d.refused.Load() - began); n < c.done {
						t.Errorf("%d calls went well in a minute, at least %d could", n, c.done)
					}
					d.places.Store(20)
					pass(30 * time.Second)
					again := d.calls.Load() - d.refused.Load()
					pass(5 * time.Second)
					if n, most := d.calls.Load()-d.refused.Load()-again, int64(5*20*20); batch == 0 && n < most*9/10 {
						t.Errorf("half a minute later %d calls went well in 5 s, of %d that could", n, most)
					}
					if n := failedRows(t, l, in); n > 0 {
						t.Errorf("%d messages failed for good, of an overload", n)
					}
					end(t, e)
				})
			})
		}
	}
}

// A downstream that is fast is used by many, within the bounds; Health and the metric say how many may run.
func TestHandlersGrowWithinTheirBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := memory.New(), &downstream{}
		d.places.Store(1000)
		e, b := begin(t, l, adaptiveOptions(), d.Handle)
		if n := e.Health().Concurrency; n != 1 {
			t.Errorf("it begins with %d handlers, want 1", n)
		}
		in := items(20_000, noLane)
		e.Offer(in)
		pass(20 * time.Second)
		if n, most := e.Health().Concurrency, d.most.Load(); n != 64 || most != 64 || e.Concurrency() != 64 {
			t.Errorf("20 s later the limit is %d, and %d have run at once, want 64", n, most)
		}
		pass(time.Minute)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// Keys that leave handlers idle are no reason for more of them.
func TestIdleHandlersAreNoReasonForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := memory.New(), &downstream{}
		d.places.Store(1000)
		o := adaptiveOptions()
		o.MinConcurrency = 8
		e, _ := begin(t, l, o, d.Handle)
		e.Offer(items(3000, func(i int) string { return []string{"a", "b", "c"}[i%3] }))
		pass(15 * time.Second)
		if n := e.Concurrency(); n != 8 {
			t.Errorf("three keys have work for three handlers, and the limit is %d, want 8", n)
		}
		end(t, e)
	})
}

// Pressure of the user's lessens the handlers, down to the least; one that panics says nothing, and one that hangs holds up nothing.
func TestPressureLessensHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := memory.New(), &downstream{}
		d.places.Store(1000)
		var mu sync.Mutex
		answer := func() float64 { return 0.5 }
		set := func(f func() float64) { mu.Lock(); answer = f; mu.Unlock() }
		o := adaptiveOptions()
		o.MinConcurrency = 2
		o.Pressure = func() float64 { mu.Lock(); f := answer; mu.Unlock(); return f() }
		e, _ := begin(t, l, o, d.Handle)
		e.Offer(items(60_000, noLane))
		pass(10 * time.Second)
		grown := e.Concurrency()
		set(func() float64 { return 1 })
		pass(8 * time.Second)
		pressed := e.Concurrency()
		set(func() float64 { panic("no signal") })
		pass(20 * time.Second)
		failed := e.Concurrency()
		set(func() float64 { return math.NaN() })
		pass(2 * time.Second)
		stop := make(chan struct{})
		set(func() float64 { <-stop; return 0 })
		pass(2 * time.Second)
		if grown != 64 || pressed != 2 || failed != 64 {
			t.Errorf("the limit is %d, under pressure %d, without a signal %d, want 64, 2, 64", grown, pressed, failed)
		}
		end(t, e)
		close(stop)
		synctest.Wait()
	})
}

// Where few messages are in hand the least of handlers is enough to use up all their attempts. Those do not count while most fail.
func TestPitfall230_FewMessagesMeetAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := memory.New(), &downstream{}
		e, b := begin(t, l, adaptiveOptions(), d.Handle)
		in := items(12, noLane)
		e.Offer(in)
		pass(10 * time.Minute)
		if h := e.Health(); len(h.Warnings) == 0 || h.Concurrency != 1 {
			t.Errorf("health says nothing of it: %+v", h)
		}
		if n := failedRows(t, l, in); n > 0 {
			t.Errorf("%d of %d messages failed for good, in an outage", n, len(in))
		}
		d.places.Store(20)
		pass(30 * time.Second)
		b.wantAcked(t, in...)
		if h := e.Health(); len(h.Warnings) > 0 {
			t.Errorf("health goes on to warn: %v", h.Warnings)
		}
		end(t, e)
	})
}

// What fails for longer than an hour is not laid to the load: attempts count, and end.
func TestFailuresEndAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := memory.New(), &downstream{}
		e, b := begin(t, l, adaptiveOptions(), d.Handle)
		in := items(12, noLane)
		e.Offer(in)
		pass(90 * time.Minute)
		b.wantAcked(t, in...)
		if n := failedRows(t, l, in); n != len(in) {
			t.Errorf("%d of %d messages failed for good in 90 minutes", n, len(in))
		}
		end(t, e)
	})
}

// While calls pause too few messages fail for the breaker to open. After an hour they do not pause any more.
func TestPitfall233_PausesOutliveTheirReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := memory.New(), &downstream{}
		o := adaptiveOptions()
		o.Breaker.Off = false
		e, _ := begin(t, l, o, d.Handle)
		in := items(5000, noLane)
		e.Offer(in)
		pass(59 * time.Minute)
		if n := failedRows(t, l, in); n > 0 {
			t.Errorf("%d messages failed for good within the hour", n)
		}
		pass(6 * time.Minute)
		opened := func(s consumer.Stall) bool { return s.Reason == consumer.StallBreaker }
		if h := e.Health(); !slices.ContainsFunc(h.Stalled, opened) {
			t.Errorf("the breaker is closed after an hour of failures alone: %+v", h)
		}
		if n := failedRows(t, l, in); n < 100 || n > 300 {
			t.Errorf("%d messages failed for good until the breaker opened", n)
		}
		end(t, e)
	})
}

// A ledger that takes longer than handlers leaves none of them idle: claims run ahead of one handler as of many.
func TestSlowLedgerBesideFewHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &downstream{}
		d.places.Store(1000)
		e, _ := begin(t, &slowLedger{Ledger: memory.New(), claims: 60 * time.Millisecond}, adaptiveOptions(), d.Handle)
		e.Offer(items(40_000, noLane))
		pass(30 * time.Second)
		if n := e.Concurrency(); n != 64 {
			t.Errorf("30 s later the limit is %d, want 64", n)
		}
		end(t, e)
	})
}

// slowLedger is one whose owners take their time to answer claims.
type slowLedger struct {
	ledger.Ledger
	claims time.Duration
}

func (l *slowLedger) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	return &slowOwner{o, l.claims}, err
}

type slowOwner struct {
	ledger.Owner
	claims time.Duration
}

func (o *slowOwner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	time.Sleep(o.claims)
	return o.Owner.Claim(ctx, entries)
}
