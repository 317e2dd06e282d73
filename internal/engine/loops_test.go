package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A ledger that does not let a session leave is asked again, less and less often, and Health says why.
func TestLeavingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("the ledger is away")
		e, _ := watched(t)
		defer e.life.giveUp()
		l := memory.New()
		o, err := l.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var asked []time.Time
		l.FailBefore(func(_ context.Context, op memory.Op) error {
			if asked = append(asked, time.Now()); op != memory.Leave || len(asked) > 4 {
				return nil
			}
			return away
		})
		if !e.lease.leave(newSession(o)) || len(asked) != 5 {
			t.Fatalf("asked %d times, want 5", len(asked))
		}
		wantSpaced(t, asked)
		if !errors.Is(e.lease.err, away) || e.Health().LastError != away.Error() {
			t.Errorf("the last error is %v", e.lease.err)
		}
	})
}

// A ledger that cannot be joined again is asked less and less often, and Health says why.
func TestRejoiningIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, logs := watched(t)
		defer e.life.giveUp()
		away, tries, joins := errors.New("the ledger is away"), []time.Time{}, memory.New()
		joins.FailBefore(func(_ context.Context, op memory.Op) error {
			if op != memory.Join {
				return nil
			}
			if tries = append(tries, time.Now()); len(tries) > 4 {
				return nil
			}
			if known := errors.Is(e.lease.err, away); known != (len(tries) > 1) {
				t.Errorf("try %d: the last error is %v", len(tries), e.lease.err)
			}
			return away
		})
		e.lease.ledger = joins
		sess, err := e.lease.untilJoined(e.life.gone, func(error) bool { return false })
		if sess == nil || err != nil || len(tries) != 5 {
			t.Fatalf("tried %d times, want 5: %v", len(tries), err)
		}
		wantSpaced(t, tries)
		if n := logs.FilterMessage("cannot join the ledger").Len(); n != 4 {
			t.Errorf("%d were logged, want 4", n)
		}
	})
}

// wantSpaced expects each call to come later than the one before it did, as outages do.
func wantSpaced(t *testing.T, calls []time.Time) {
	t.Helper()
	for i := 1; i < len(calls); i++ {
		if wait, low := calls[i].Sub(calls[i-1]), 50*time.Millisecond<<(i-1); wait < low {
			t.Errorf("call %d came after %s, want at least %s", i, wait, low)
		}
	}
}

// After calls that the ledger does not take, one after the other, a loop rests for longer each time; not after a success.
func TestRestsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t)
		defer e.life.giveUp()
		failed, calls := 0, []time.Time{time.Now()}
		for range 4 {
			failed = e.life.rest(failed, false)
			calls = append(calls, time.Now())
		}
		wantSpaced(t, calls)
		began := time.Now()
		if failed = e.life.rest(failed, true); failed != 0 || time.Since(began) != 0 {
			t.Errorf("after a success: %d failed, rested %s", failed, time.Since(began))
		}
		if e.life.rest(failed, false); time.Since(began) > 100*time.Millisecond {
			t.Errorf("the first failure after it costs %s", time.Since(began))
		}
	})
}

// A claim without an answer is repeated once the sent one can change nothing any more, and later each time.
func TestUnansweredClaimsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t)
		defer e.life.giveUp()
		l := memory.New()
		o, err := l.Join(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		e.joins(o)
		var asked []time.Time
		l.FailAfter(func(_ context.Context, op memory.Op) error {
			if asked = append(asked, time.Now().Add(-callTimeout(&e.opt)*time.Duration(len(asked)))); len(asked) > 4 {
				return nil
			}
			return ledger.MarkUnknown(errors.New("no answer"))
		})
		e.Offer([]*Item{plainItem("a")})
		var call claimCall
		if !e.claimer.next(&call) || len(call.Items) != 1 {
			t.Fatalf("%d are to be claimed", len(call.Items))
		}
		if !e.claimer.ask(&call, false) || len(asked) != 5 {
			t.Fatalf("asked %d times, want 5", len(asked))
		}
		wantSpaced(t, asked) // beside the time for which the sent one may still change something
	})
}

// Leaving a session waits for its own handlers, as long as they may take, and for no other's.
func TestLeavingWaitsForTheHandlersOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t)
		defer e.life.giveUp()
		mine, other := e.joins(nil), newSession(nil)
		e.Offer([]*Item{plainItem("a")})
		e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1})
		c := e.dispatches()
		c.next.Store(1)
		took := func(sess *session) time.Duration {
			began := time.Now()
			e.lease.settleDown(sess)
			return time.Since(began)
		}
		if d := took(other); d != 0 {
			t.Errorf("waited %s for a handler of another session", d)
		}
		if d, limit := took(mine), e.opt.Lease/3; d < limit || d > limit+time.Second {
			t.Errorf("waited %s for one that goes on, want %s", d, limit)
		}
		time.AfterFunc(time.Second, func() { e.do(func(_ *flow.Flow, now time.Duration) { e.pool.apply(c, 1, now) }) })
		if d := took(mine); d < time.Second || d > 2*time.Second {
			t.Errorf("waited %s for one that ends after a second", d)
		}
	})
}

// Handlers that have not begun when the session is lost are not waited for: they never will.
func TestLeavingDoesNotWaitForWhatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t)
		defer e.life.giveUp()
		sess := e.joins(named{})
		e.Offer([]*Item{plainItem("a")})
		e.claims(ledger.Claim{Answer: ledger.Run, Attempt: 1})
		c := e.dispatches()
		e.lease.lose(sess)
		began := time.Now()
		if e.lease.settleDown(sess); time.Since(began) != 0 || c.begin() != nil {
			t.Errorf("waited %s, and it begins: %v", time.Since(began), !c.gone())
		}
	})
}

// named is an owner that is only asked for its name.
type named struct{ ledger.Owner }

func (named) ID() string { return "owner" }

// A ledger that says that the session is lost is believed at once.
func TestLostSettlementLosesTheSession(t *testing.T) {
	e, _ := watched(t)
	o, err := memory.New().Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sess := e.joins(o)
	calls, batch := 0, &flow.Batch{Items: []flow.Settlement{{Item: &flow.Item{}, Session: &sess.flow}}}
	e.settler.settle(batch, func(context.Context, *session) ([]error, error) { calls++; return nil, ledger.ErrLost })
	if calls != 1 || !sess.flow.Lost() || e.flow.Session() != nil {
		t.Errorf("called %d times, lost %v", calls, sess.flow.Lost())
	}
	select {
	case <-sess.ended:
	default:
		t.Error("those who wait for the session do not know")
	}
}

// A handler that waited for the shared limiter while its messages were taken back does not begin, and keeps nobody from the limiter.
func TestTakenBackBehindTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t, func(o *consumer.Options) { o.Rate, o.Limiter = 1000, consumer.NewLimiter(1) })
		defer e.life.giveUp()
		if err := e.opt.Limiter.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, got := &chunk{}, make(chan error)
		go func() { got <- e.admission.acquire(c) }()
		synctest.Wait()
		c.next.Store(takenBack)
		e.opt.Limiter.Release()
		if err := <-got; !errors.Is(err, errTakenBack) {
			t.Errorf("it begins: %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.opt.Limiter.Acquire(short); err != nil {
			t.Errorf("the limiter is kept: %v", err)
		}
	})
}

// A chunk that was taken back takes no place of the limiter that it did not have: its handler's place is another's.
func TestTakenBackTakesNoPlace(t *testing.T) {
	e, _ := watched(t, func(o *consumer.Options) { o.Rate, o.Limiter = 1000, consumer.NewLimiter(1) })
	gone := &chunk{}
	gone.next.Store(takenBack)
	for range 3 {
		if err := e.admission.acquire(gone); err == nil {
			t.Fatal("a chunk that was taken back was admitted")
		}
	}
	if err := e.admission.acquire(nil); err != nil {
		t.Fatal(err)
	}
	e.opt.Limiter.Release()
}

// The provider of spans is looked for once.
func TestTracerIsRemembered(t *testing.T) {
	tel, tracer := &telemetry{}, noop.NewTracerProvider().Tracer("a")
	tel.global.Store(&tracer)
	if got := tel.tracing(); got != trace.Tracer(tracer) {
		t.Errorf("%v", got)
	}
}
