package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

const budgetOfTests = 1 << 20

// thrifty are options with a budget and no breaker.
func thrifty() consumer.Options {
	o := options()
	o.ArchiveBudget, o.Breaker.Off = budgetOfTests, true
	return o
}

// archivedOf is what the ledger has archived of the tests' scope, and the weight of one such delivery.
func archivedOf(t *testing.T, l *memory.Ledger) (all, one int64) {
	t.Helper()
	all, err := l.ArchivedBytes(context.Background(), scope, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	for d, err := range l.DeadLetters(context.Background(), ledger.Filter{Scope: scope, Limit: 1, Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		one = d.Weight()
	}
	return all, one
}

// makeRoom purges n of what is archived.
func makeRoom(t *testing.T, l *memory.Ledger, in []*engine.Item, n int) {
	t.Helper()
	f := ledger.Filter{Scope: scope}
	for _, it := range in {
		if r, err := l.Get(context.Background(), it.Key); err == nil && r.State == ledger.Failed && r.Archived[0].Purged.IsZero() && len(f.IDs) < n {
			f.IDs = append(f.IDs, it.Key.ID)
		}
	}
	for ids := range slices.Chunk(f.IDs, 500) {
		f := f
		f.IDs = ids
		if _, err := l.Purge(context.Background(), ledger.PurgeRequest{Filter: f, By: ledger.By{Actor: "tests", Reason: "room"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// wantNoneLost fails for what was acknowledged without an archived delivery.
func wantNoneLost(t *testing.T, l *memory.Ledger, b *broker, in []*engine.Item) (acked int) {
	t.Helper()
	for _, it := range in {
		if !b.acked(t, it) {
			continue
		}
		acked++
		if r, err := l.Get(context.Background(), it.Key); err != nil || len(r.Archived) != 1 {
			t.Errorf("%s is acknowledged and not archived: %v, %v", it.Msg.ID, r, err)
		}
	}
	return acked
}

// Messages that failed filled the database in which the ledger is. The worker stops at its budget, loses nothing, and goes on
// by itself when there is room.
func TestPitfall132_ArchiveFull(t *testing.T) {
	for name, c := range map[string]struct {
		lane   func(int) string
		change func(*consumer.Options)
	}{
		"no order":   {lane: noLane},
		"ten lanes":  {lane: func(i int) string { return fmt.Sprint(i % 10) }},
		"one lane":   {lane: func(int) string { return "a" }},
		"one at all": {lane: noLane, change: func(o *consumer.Options) { o.Concurrency = 1 }},
		"park":       {lane: noLane, change: func(o *consumer.Options) { o.Park = true }},
		"breaker":    {lane: noLane, change: func(o *consumer.Options) { o.Breaker = consumer.Breaker{Failures: 1680} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, o, reader := memory.New(), thrifty(), metric.NewManualReader()
				o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
				if c.change != nil {
					c.change(&o)
				}
				d := &deploy{takes: time.Millisecond}
				d.broken.Store(true)
				e, b := begin(t, l, o, d.Handle)
				in := items(4000, c.lane)
				e.Offer(in)
				pass(10 * time.Minute)
				all, one := archivedOf(t, l)
				if most := budgetOfTests + one*int64(o.Concurrency); all < budgetOfTests || all > most {
					t.Fatalf("%d bytes are archived, want %d to %d", all, budgetOfTests, most)
				}
				h := e.Health()
				if h.Ready || !h.Alive || !strings.Contains(h.LastError, "budget of archived bytes is spent") || e.Open() {
					t.Errorf("health while it is spent: %+v, open for polls: %v", h, e.Open())
				}
				spent := func(s consumer.Stall) bool { return s.Reason == consumer.StallBudget && s.Why == h.LastError }
				if !slices.ContainsFunc(h.Stalled, spent) {
					t.Errorf("stalled: %+v", h.Stalled)
				}
				m := read(t, reader)
				if n := m["ackledger.archive.bytes "+scope]; n < budgetOfTests || n > all || m["ackledger.archive.budget "+scope] != budgetOfTests || m["ackledger.stalled budget"] != 1 {
					t.Errorf("metrics: %v", m)
				}
				if n := wantNoneLost(t, l, b, in); int64(n) != d.refused.Load() || n != failedRows(t, l, in) {
					t.Errorf("%d acknowledged, %d runs, %d failed", n, d.refused.Load(), failedRows(t, l, in))
				}
				d.broken.Store(false)
				pass(5 * time.Minute)
				if n := d.refused.Load(); int(n) != failedRows(t, l, in) {
					t.Errorf("%d runs", n)
				}
				makeRoom(t, l, in, 100)
				pass(2 * time.Minute)
				b.wantAcked(t, in...)
				if h := e.Health(); !h.Ready || len(h.Stalled) != 0 {
					t.Errorf("health once there is room: %+v", h)
				}
				end(t, e)
			})
		})
	}
}

// A worker that starts while the archive is full starts no handler; with a larger budget it does.
func TestBudgetAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := memory.New(), thrifty()
		d := &deploy{}
		d.broken.Store(true)
		e, _ := begin(t, l, o, d.Handle)
		in := items(4000, noLane)
		e.Offer(in)
		pass(time.Minute)
		end(t, e)
		before := d.refused.Load()

		e, b := begin(t, l, o, d.Handle)
		more := items(5000, noLane)[4000:]
		e.Offer(more)
		pass(time.Minute)
		if n := d.refused.Load(); n != before {
			t.Errorf("%d handlers ran", n-before)
		}
		end(t, e)
		b.wantKept(t, more...)

		o.ArchiveBudget *= 2
		e, b = begin(t, l, o, d.Handle)
		more = items(5000, noLane)[4000:]
		e.Offer(more)
		pass(time.Minute)
		b.wantAcked(t, more...)
		end(t, e)
	})
}

// What other processes archive counts, and what goes by itself makes room: the ledger is asked again.
func TestBudgetOfManyProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		d := &deploy{takes: 10 * time.Millisecond}
		d.broken.Store(true)
		in := items(8000, noLane)
		var engines []*engine.Engine
		var brokers []*broker
		for i := range 4 {
			e, b := begin(t, l, thrifty(), d.Handle)
			e.Offer(in[i*2000 : (i+1)*2000])
			engines, brokers = append(engines, e), append(brokers, b)
		}
		pass(time.Minute)
		all, one := archivedOf(t, l)
		// Each of four fails 400 messages in a second, and asks after ten.
		if most := budgetOfTests + 4*10*400*one; all < budgetOfTests || all > most {
			t.Errorf("%d bytes are archived, at most %d were to be", all, most)
		}
		for i, e := range engines {
			if e.Health().Ready {
				t.Errorf("process %d is ready", i)
			}
			wantNoneLost(t, l, brokers[i], in[i*2000:(i+1)*2000])
			end(t, e)
		}
	})
}

// blindLedger cannot say how much is archived, for a while.
type blindLedger struct {
	*memory.Ledger
	blind atomic.Bool
}

func (l *blindLedger) ArchivedBytes(ctx context.Context, scope string, enough int64) (int64, error) {
	if l.blind.Load() {
		return 0, errors.New("no such index")
	}
	return l.Ledger.ArchivedBytes(ctx, scope, enough)
}

// Nothing starts before it is known how much is archived; and what was known once counts while it cannot be read.
func TestBudgetThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &blindLedger{Ledger: memory.New()}
		l.blind.Store(true)
		d := &deploy{}
		d.broken.Store(true)
		e, b := begin(t, l, thrifty(), d.Handle)
		in := items(4000, noLane)
		e.Offer(in[:10])
		pass(10 * time.Minute)
		h := e.Health()
		if d.refused.Load() != 0 || h.Ready || !strings.Contains(h.LastError, "no such index") || len(h.Stalled) != 1 {
			t.Errorf("%d runs, health %+v", d.refused.Load(), h)
		}
		l.blind.Store(false)
		pass(time.Minute)
		b.wantAcked(t, in[:10]...)
		l.blind.Store(true)
		pass(time.Minute)
		if h := e.Health(); !h.Ready {
			t.Errorf("health: %+v", h)
		}
		e.Offer(in[10:])
		pass(10 * time.Minute)
		all, one := archivedOf(t, l.Ledger)
		if all < budgetOfTests || all > budgetOfTests+4*one {
			t.Errorf("%d bytes are archived", all)
		}
		l.blind.Store(false)
		makeRoom(t, l.Ledger, in, 4000)
		pass(time.Minute)
		wantNoneLost(t, l.Ledger, b, in)
		end(t, e)
	})
}

// Ranges: stretches are split, what runs is archived, and the rest is given back.
func TestBudgetOfStretches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deploy{}
		d.broken.Store(true)
		s := newStretches(t, d.offset, func(o *consumer.Options) { o.ArchiveBudget, o.Breaker.Off = budgetOfTests, true })
		for range 10 {
			s.offer(400)
		}
		pass(time.Minute)
		if n := d.refused.Load(); n == 0 || n > budgetOfTests/ledger.ArchiveRowBytes {
			t.Errorf("%d records were refused", n)
		}
		if s.Health().Ready {
			t.Error("it is ready")
		}
		end(t, s.Engine)
	})
}

// A ledger that cannot say how much is archived is refused with a budget, by name.
func TestBudgetNeedsAMeter(t *testing.T) {
	o, err := thrifty().WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg := engine.Config{Options: o, Ledger: struct{ ledger.Ledger }{memory.New()}, Sink: &broker{}, Handler: consumer.HandlerFunc(
		func(context.Context, *consumer.Message) error { return nil })}
	if _, err := engine.New(cfg); err == nil || !strings.Contains(err.Error(), "ArchiveBudget") {
		t.Errorf("%v", err)
	}
}

// ArchivedBytes is not cut off with the link.
func (l *link) ArchivedBytes(ctx context.Context, scope string, enough int64) (int64, error) {
	return l.Ledger.(ledger.ArchiveMeter).ArchivedBytes(ctx, scope, enough)
}

// What had failed and was not archived yet was forgotten when the ledger was asked again: with a slow target, or a cipher that
// is away, eleven times the budget was archived.
func TestBudgetWhileArchivingIsSlow(t *testing.T) {
	for _, name := range []string{"slow target", "cipher away"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, o := memory.New(), thrifty()
				var away atomic.Bool
				if name == "slow target" {
					o.DeadLetter = &target{do: func(context.Context, int, *consumer.DeadLetter) error {
						time.Sleep(4 * time.Second)
						return nil
					}}
				} else {
					o.Cipher = mirror{broken: func() error {
						if away.Load() {
							return errors.New("the cipher is away")
						}
						return nil
					}}
				}
				away.Store(true)
				var runs atomic.Int64
				e, b := begin(t, l, o, func(context.Context, *consumer.Message) error {
					runs.Add(1)
					return consumer.Terminal(errors.New("no"))
				})
				in := items(2000, noLane)
				e.Offer(in)
				pass(30 * time.Minute)
				away.Store(false)
				pass(3 * time.Hour)
				all, one := archivedOf(t, l)
				// What is sealed is a little larger than what was counted.
				if most := budgetOfTests*11/10 + 2*one*int64(o.Concurrency); all < budgetOfTests || all > most {
					t.Errorf("%d bytes are archived by %d runs, want %d to %d", all, runs.Load(), budgetOfTests, most)
				}
				wantNoneLost(t, l, b, in)
				makeRoom(t, l, in, len(in))
				before := runs.Load()
				pass(3 * time.Hour)
				if runs.Load() == before {
					t.Error("nothing ran when there was room again")
				}
				end(t, e)
			})
		})
	}
}
