package engine

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// Whoever waits for load hears that a handler has ended, whether its message is settled yet or not: Engine.Changed says so of Load,
// and a poller asks for as many messages as handlers run.
func TestEndOfAHandlerIsTold(t *testing.T) {
	e, _ := watched(t)
	e.joins(named{})
	e.Offer([]*Item{plainItem("a")})
	e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1})
	c := e.dispatches()
	c.begin()
	waits, before := e.Changed(), e.Load()
	e.pool.close(c)
	if after := e.Load(); before.Running != 1 || after.Running != 0 {
		t.Fatalf("%+v, then %+v", before, after)
	}
	select {
	case <-waits:
	default:
		t.Error("the handler has ended, and nobody is told")
	}
}

// Whoever reads that a message was taken over learns which claim of it that was.
func TestTakenOverMessagesAreNamedWithTheirToken(t *testing.T) {
	e, logs := watched(t)
	e.joins(named{})
	it := plainItem("order 17")
	e.Offer([]*Item{it})
	e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1, Ticket: ledger.NewTicket(it.Key.Sum(), 7)})
	c := e.dispatches()
	c.begin()
	e.pool.close(c)
	e.settles(0, ledger.ErrLost)
	all := logs.FilterMessage("message was taken over before it was settled").All()
	if len(all) != 1 {
		t.Fatalf("%d say so", len(all))
	}
	if fields := all[0].ContextMap(); fields["message_id"] != "order 17" || fields["settlement"] != "succeed" || fields["token"] != uint64(7) {
		t.Errorf("%v", fields)
	}
}

// A message that was tried while the breaker is open is named by its id in the ledger, which may be another than the broker's.
func TestTriedMessagesAreNamedByTheirKey(t *testing.T) {
	e, logs := watched(t)
	it := plainItem("of the broker")
	it.Key.ID = []byte("of the ledger")
	e.report(&flow.News{What: flow.ProbeFailed, Item: &it.Item})
	if all := logs.All(); len(all) != 1 || all[0].ContextMap()["message_id"] != "of the ledger" {
		t.Errorf("%+v", all)
	}
}

// What succeeds after the broker has its copy back is acknowledged with its next delivery, and measured from end to end there.
func TestSuccessAfterTheGraceIsMeasuredElsewhere(t *testing.T) {
	for dropped, want := range map[bool]uint64{false: 1, true: 0} {
		reader := metric.NewManualReader()
		e, _ := watched(t, func(o *consumer.Options) { o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader)) })
		e.joins(named{})
		it := plainItem("a")
		it.Msg.SentAt = time.Now().Add(-time.Second)
		e.Offer([]*Item{it})
		e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1})
		c := e.dispatches()
		c.begin()
		if dropped {
			e.Drop(func(*Item) bool { return true }, 0)
			e.do(func(f *flow.Flow, now time.Duration) { f.Wake(now + 1) })
		}
		e.pool.close(c)
		e.settles(0, nil)
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		if n := countOf(all, "ackledger.end_to_end.duration"); n != want {
			t.Errorf("dropped %v: measured %d times, want %d", dropped, n, want)
		}
	}
}

// countOf says how often a histogram was measured.
func countOf(all metricdata.ResourceMetrics, name string) (n uint64) {
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == name {
				for _, p := range h.DataPoints {
					n += p.Count
				}
			}
		}
	}
	return n
}

// What was kept and is forgotten is not in memory until it would have been repeated, which may be hours.
func TestForgottenSettlementsAreNotInMemory(t *testing.T) {
	e, _ := watched(t)
	e.joins(named{})
	gone := func() weak.Pointer[Item] {
		it := plainItem("a")
		e.runs(it, flow.Outcome{More: &ledger.Settlement{Kind: ledger.Fail, Dead: &ledger.Archive{}}})
		e.settles(0, &ledger.InvalidError{})
		if len(e.Health().Stalled) != 1 {
			t.Fatal("it is not kept")
		}
		e.Drop(func(*Item) bool { return true }, time.Minute)
		e.settles(0, nil)
		return weak.Make(it)
	}()
	e.runs(plainItem("b"), flow.Outcome{}) // what is used again has another one's now
	e.settles(0, nil)
	if e.Load() != (Load{}) {
		t.Fatalf("%+v in hand", e.Load())
	}
	runtime.GC()
	if gone.Value() != nil {
		t.Error("a message that the broker has back is in memory")
	}
	runtime.KeepAlive(e)
}

// A drop that has ended is not waited for: its grace may be hours.
func TestEndedDropsWakeNobody(t *testing.T) {
	e, _ := watched(t)
	e.joins(named{})
	e.Offer([]*Item{plainItem("a")})
	e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1})
	ended := e.Drop(func(*Item) bool { return true }, time.Hour)
	e.settles(0, nil)
	select {
	case <-ended:
	default:
		t.Fatalf("it has not ended: %+v in hand", e.Load())
	}
	e.do(func(f *flow.Flow, now time.Duration) {
		if at, ok := f.NextWake(); ok {
			t.Errorf("nothing is in hand, and it wakes in %s", at-now)
		}
	})
}
