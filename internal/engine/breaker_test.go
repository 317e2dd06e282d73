package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.opentelemetry.io/otel/sdk/metric"
)

// deploy is a handler that refuses everything until it is mended.
type deploy struct {
	broken  atomic.Bool
	refused atomic.Int64 // messages
	running atomic.Int64
	most    atomic.Int64 // that ran at once, once the breaker was open
	open    func() bool
	takes   time.Duration
}

func (d *deploy) Handle(context.Context, *consumer.Message) error {
	n := d.running.Add(1)
	defer d.running.Add(-1)
	if d.open != nil && d.open() {
		d.most.Store(max(d.most.Load(), n))
	}
	time.Sleep(d.takes)
	if d.broken.Load() {
		d.refused.Add(1)
		return consumer.Terminal(errors.New("this deploy knows no such message"))
	}
	return nil
}

func (d *deploy) offset(ctx context.Context, _ int64) error { return d.Handle(ctx, nil) }

func failedRows(t *testing.T, l *memory.Ledger, in []*engine.Item) (n int) {
	t.Helper()
	for _, it := range in {
		if r, err := l.Get(context.Background(), it.Key); err == nil && r.State == ledger.Failed {
			n++
		}
	}
	return n
}

// A deploy that refused everything wrote every message of its source into the archive at full speed. The worker stops at the
// limit, tries one message at a time, and goes on when they succeed.
func TestPitfall131_BrokenDeploy(t *testing.T) {
	for name, c := range map[string]struct {
		lane    func(int) string
		handler func(*deploy) consumer.Handler
		change  func(*consumer.Options)
		size    int // of a batch
	}{
		"no order":   {lane: noLane},
		"ten lanes":  {lane: func(i int) string { return fmt.Sprint(i % 10) }},
		"one lane":   {lane: func(int) string { return "a" }},
		"one at all": {lane: noLane, change: func(o *consumer.Options) { o.Concurrency = 1 }},
		"park":       {lane: noLane, change: func(o *consumer.Options) { o.Park = true }},
		"rate":       {lane: noLane, change: func(o *consumer.Options) { o.Rate = 1000 }},
		"limiter":    {lane: noLane, change: func(o *consumer.Options) { o.Limiter = consumer.NewLimiter(2) }},
		"transactions": {lane: noLane, handler: func(d *deploy) consumer.Handler {
			return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
				return memory.InTx(ctx, func(ctx context.Context) error { return d.Handle(ctx, m) })
			})
		}},
		"batches": {lane: noLane, size: 20, handler: func(d *deploy) consumer.Handler {
			return consumer.Batch(20, func(ctx context.Context, ms []*consumer.Message) []error {
				errs := make([]error, len(ms))
				for i, m := range ms {
					errs[i] = d.Handle(ctx, m)
				}
				return errs
			})
		}},
	} {
		for _, takes := range []time.Duration{0, 10 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, o, reader := memory.New(), options(), metric.NewManualReader()
					o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
					if c.change != nil {
						c.change(&o)
					}
					d := &deploy{takes: takes}
					d.broken.Store(true)
					e, b := begin(t, l, o, d.Handle, func(cfg *engine.Config) {
						if c.handler != nil {
							cfg.Handler = c.handler(d)
						}
					})
					d.open = func() bool { return len(e.Health().Stalled) > 0 }
					in := items(1000, c.lane)
					e.Offer(in)
					pass(30 * time.Second)
					// 100, and one; what runs at that moment; and tries after 1, 3, 7 and 15 s.
					limit := 101 + o.Concurrency*max(c.size, 1) + 4
					if n := failedRows(t, l, in); n <= 100 || n > limit || int64(n) != d.refused.Load() {
						t.Fatalf("%d messages failed for good, %d runs: at most %d were to", n, d.refused.Load(), limit)
					}
					h := e.Health()
					if h.Ready || !h.Alive || !strings.Contains(h.LastError, "breaker") || len(h.Stalled) != 1 || h.Stalled[0].Why != h.LastError {
						t.Errorf("health while it is open: %+v", h)
					}
					if read(t, reader)["ackledger.breaker.open"] != 1 || e.Open() {
						t.Errorf("the gauge is %d, open for polls: %v", read(t, reader)["ackledger.breaker.open"], e.Open())
					}
					d.most.Store(0)
					pass(5 * time.Minute)
					if n := failedRows(t, l, in); n > limit+2+5 || d.most.Load() != 1 {
						t.Fatalf("after 5 minutes %d messages had failed, %d ran at once", n, d.most.Load())
					}
					d.broken.Store(false)
					pass(2 * time.Minute)
					b.wantAcked(t, in...)
					if h := e.Health(); !h.Ready || len(h.Stalled) != 0 || read(t, reader)["ackledger.breaker.open"] != 0 {
						t.Errorf("health when it is closed: %+v", h)
					}
					end(t, e)
				})
			})
		}
	}
}

// Ranges: stretches are split, and what is released is tried by itself.
func TestBreakerOfStretches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deploy{}
		d.broken.Store(true)
		s := newStretches(t, d.offset)
		for range 10 {
			s.offer(200)
		}
		pass(30 * time.Second)
		if n := d.refused.Load(); n <= 100 || n > 101+4+4 {
			t.Errorf("%d records were refused", n)
		}
		d.broken.Store(false)
		pass(time.Minute)
		s.want(0, nil)
		end(t, s.Engine)
	})
}

func TestBreakerIsOffByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := memory.New(), options()
		o.Breaker.Off = true
		d := &deploy{}
		d.broken.Store(true)
		e, b := begin(t, l, o, d.Handle)
		in := items(3000, noLane)
		e.Offer(in)
		pass(time.Second)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// tripped is an engine whose breaker has just opened, with what it was offered.
func tripped(t *testing.T, l ledger.Ledger, o consumer.Options, n int, lane func(int) string) (*engine.Engine, *broker, *deploy, []*engine.Item) {
	t.Helper()
	d := &deploy{}
	d.broken.Store(true)
	e, b := begin(t, l, o, d.Handle)
	in := items(n, lane)
	e.Offer(in)
	pass(100 * time.Millisecond)
	if len(e.Health().Stalled) != 1 {
		t.Fatalf("the breaker did not open: %+v", e.Health())
	}
	return e, b, d, in
}

// A drain is quick while it is open, and gives back all that did not run.
func TestBreakerDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		e, b, d, in := tripped(t, l, options(), 5000, noLane)
		began := time.Now()
		end(t, e)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the drain took %s", took)
		}
		acked := 0
		for _, it := range in {
			switch v, ok := b.verdict(t, it); {
			case !ok:
				t.Fatalf("%s is in hand after the drain", it.Msg.ID)
			case v.Ack:
				acked++
			}
		}
		if n := failedRows(t, l, in); n != acked || int64(n) != d.refused.Load() {
			t.Errorf("%d acknowledged, %d failed, %d refused", acked, n, d.refused.Load())
		}
	})
}

// With nothing in hand to try, the worker polls for something, however small; and what comes is tried at once.
func TestBreakerIsHungry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, b, d, _ := tripped(t, memory.New(), options(), 5000, noLane)
		<-e.Drop(func(*engine.Item) bool { return true }, 0) // all partitions are revoked
		if e.Open() {
			t.Error("it polls during the pause")
		}
		changed := e.Changed()
		pass(2 * time.Second)
		select {
		case <-changed:
		default:
			t.Error("nobody is told that it may poll")
		}
		if !e.Open() {
			t.Fatal("it does not poll for a message to try")
		}
		d.broken.Store(false)
		more := items(7, func(int) string { return "a" })
		for i, it := range more {
			it.Key.ID = fmt.Appendf(nil, "more %d", i)
			e.Offer(more[i : i+1])
			pass(time.Millisecond)
		}
		b.wantAcked(t, more...)
		if h := e.Health(); !h.Ready {
			t.Errorf("%+v", h)
		}
		end(t, e)
	})
}

// One lane whose head crashed its process before: suspects are tried, too.
func TestBreakerTriesSuspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		late := items(6, func(int) string { return "late" })
		var asked []ledger.Entry
		for i, it := range late {
			it.Key.ID = fmt.Appendf(nil, "late %d", i)
			asked = append(asked, ledger.Entry{Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, Window: time.Hour, Solo: true})
		}
		peer, err := l.Join(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if owner, err := l.Join(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			} else if _, err := owner.Claim(t.Context(), asked); err != nil {
				t.Fatal(err)
			}
			for range 10 { // until it is declared dead
				pass(300 * time.Millisecond)
				if _, err := peer.Beat(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		e, b, d, _ := tripped(t, l, options(), 200, noLane)
		e.Drop(func(*engine.Item) bool { return true }, 0)
		d.broken.Store(false)
		e.Offer(late)
		pass(10 * time.Second)
		b.wantAcked(t, late...)
		if h := e.Health(); !h.Ready {
			t.Errorf("%+v", h)
		}
		end(t, e)
	})
}

// A message that is tried and asks for another attempt says nothing: the next one is tried, and nothing fails for good.
func TestBreakerAndRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := memory.New(), options()
		var mu sync.Mutex
		refuse, runs := true, map[string]int{}
		e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			runs[m.ID]++
			switch {
			case refuse:
				return consumer.Terminal(errors.New("no"))
			case runs[m.ID] < 3:
				return consumer.RetryAfter(errors.New("later"), 3*time.Second)
			}
			return nil
		})
		in := items(300, noLane)
		e.Offer(in)
		pass(100 * time.Millisecond)
		mu.Lock()
		refuse = false
		mu.Unlock()
		failed := failedRows(t, l, in)
		pass(time.Minute)
		b.wantAcked(t, in...)
		if n := failedRows(t, l, in); n != failed {
			t.Errorf("%d messages failed, %d before", n, failed)
		}
		end(t, e)
	})
}

// While the breaker was open, tries that were to be repeated followed each other without a pause: 100,000 within a minute.
func TestTriesThatAreToBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := memory.New(), options()
		var runs, mood atomic.Int64
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error {
			runs.Add(1)
			switch mood.Load() {
			case 0:
				return consumer.Terminal(errors.New("no"))
			case 1:
				return errors.New("away")
			}
			return nil
		})
		in := items(3000, noLane)
		e.Offer(in)
		pass(10 * time.Second)
		if h := e.Health(); h.Ready {
			t.Fatalf("the breaker is closed: %+v", h)
		}
		mood.Store(1)
		before := runs.Load()
		pass(5 * time.Minute)
		if n := runs.Load() - before; n < 2 || n > 10*5*60 {
			t.Errorf("%d tries in 5 minutes, want at most ten a second", n)
		}
		mood.Store(2)
		pass(time.Hour)
		b.wantAcked(t, in...)
		if h := e.Health(); !h.Ready {
			t.Errorf("health once they succeed: %+v", h)
		}
		end(t, e)
	})
}

// A try whose transaction is lost or unknown is asked for again: it is a try like one that is to be repeated.
func TestTriesThatAreAskedForAgain(t *testing.T) {
	for name, state := range map[string]ledger.AttemptState{"lost": ledger.AttemptLost, "unknown": ledger.AttemptUnknown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				var asks atomic.Bool
				e, _ := begin(t, memory.New(), options(), func(ctx context.Context, _ *consumer.Message) error {
					runs.Add(1)
					if !asks.Load() {
						return consumer.Terminal(errors.New("no"))
					}
					a, _ := ledger.AttemptFrom(ctx)
					if err := a.Begin(); err != nil {
						return err
					}
					a.End(state, errors.New("asked again"))
					return errors.New("asked again")
				})
				e.Offer(items(300, noLane))
				pass(10 * time.Second)
				asks.Store(true)
				pass(5 * time.Second) // the pause that was on is over after that
				before := runs.Load()
				pass(5 * time.Second)
				if n := runs.Load() - before; n == 0 || n > 51 {
					t.Errorf("%d tries in 5 s, want 1 to 51: at most ten a second", n)
				}
				end(t, e)
			})
		})
	}
}
