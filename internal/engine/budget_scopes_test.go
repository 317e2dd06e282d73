package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// moodyMeter takes its time with one scope, and fails at the first question.
type moodyMeter struct {
	*memory.Ledger
	slow  string
	fails atomic.Bool
}

func (l *moodyMeter) ArchivedBytes(ctx context.Context, scope string, enough int64) (int64, error) {
	if l.fails.CompareAndSwap(true, false) {
		time.Sleep(30 * time.Second)
		return 0, errors.New("timeout")
	}
	if scope == l.slow {
		time.Sleep(10 * time.Minute)
	}
	return l.Ledger.ArchivedBytes(ctx, scope, enough)
}

// A question that takes long and fails is asked again like any other: what rests in proportion is one that was answered.
func TestBudgetIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &moodyMeter{Ledger: memory.New()}
		l.fails.Store(true)
		e, b := begin(t, l, thrifty(), func(context.Context, *consumer.Message) error { return nil })
		in := items(10, noLane)
		pass(time.Second)
		e.Offer(in)
		pass(35 * time.Second)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// While it is not known what a new scope has archived, nothing starts; what is claimed of others is released.
func TestBudgetOfANewScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &moodyMeter{Ledger: memory.New(), slow: "tests/other"}
		e, _ := begin(t, l, thrifty(), func(context.Context, *consumer.Message) error { time.Sleep(time.Second); return nil })
		in := items(100, noLane)
		e.Offer(in)
		pass(10 * time.Second)
		other := item("x", "")
		other.Key.Scope = l.slow
		e.Offer([]*engine.Item{other})
		pass(time.Minute)
		for _, it := range in {
			if r, err := l.Get(t.Context(), it.Key); err == nil && r.State == ledger.Pending && r.Owner != "" {
				t.Errorf("%s is claimed, and does not start: %s", it.Msg.ID, e.Health().LastError)
			}
		}
		end(t, e)
	})
}

// Mismatches run no handler, and are archived whole: they wait for room as others do, though thousands are claimed at once.
func TestBudgetOfMismatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		e, b := begin(t, l, options(), func(context.Context, *consumer.Message) error { return nil })
		known := items(6000, noLane)
		e.Offer(known)
		pass(time.Minute)
		b.wantAcked(t, known...)
		end(t, e)
		e, _ = begin(t, l, thrifty(), func(context.Context, *consumer.Message) error { time.Sleep(time.Millisecond); return nil })
		good := items(4000, noLane)
		for i, it := range good {
			it.Key.ID = fmt.Appendf(nil, "good %d", i)
		}
		e.Offer(good) // they are quick, and so the next ones are claimed far ahead
		pass(500 * time.Millisecond)
		body := make([]byte, 100<<10)
		others := items(6000, noLane)
		for _, it := range others {
			it.Msg.Body = body
			it.Original = func(*engine.Item) engine.Content { return engine.Content{Body: body} }
			it.Fingerprint, it.Delivery = ledger.BodyFingerprint(body), append([]byte("other "), it.Delivery...)
		}
		e.Offer(others)
		pass(20 * time.Second)
		all, err := l.ArchivedBytes(t.Context(), scope, 1<<50)
		if most := int64(budgetOfTests + 8*101<<10); err != nil || all < budgetOfTests || all > most {
			t.Errorf("%d bytes are archived, want %d to %d, %v", all, budgetOfTests, most, err)
		}
		end(t, e)
	})
}

// A scope whose messages have all gone to another worker does not stop this one, which has others.
func TestBudgetOfAScopeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deploy{}
		d.broken.Store(true)
		l := memory.New()
		e, b := begin(t, l, thrifty(), d.Handle)
		e.Offer(items(4000, noLane))
		pass(time.Minute)
		others := items(10, noLane)
		for i, it := range others {
			it.Key.Scope, it.Key.ID = "tests/other", fmt.Appendf(nil, "other %d", i)
		}
		e.Offer(others)
		pass(time.Minute)
		for _, it := range others {
			if _, done := b.verdict(t, it); done {
				t.Fatal("the worker did not stop as a whole")
			}
		}
		d.broken.Store(false)
		<-e.Drop(func(it *engine.Item) bool { return it.Key.Scope == scope }, 0)
		pass(time.Minute)
		b.wantAcked(t, others...)
		before, _ := archivedOf(t, l)
		d.broken.Store(true)
		again := items(4000, noLane)
		e.Offer(again[2000:]) // it comes back, and is as full as it was
		pass(time.Minute)
		if after, _ := archivedOf(t, l); after != before || e.Health().Ready {
			t.Errorf("%d bytes are archived, %d before it went; health %+v", after, before, e.Health())
		}
		end(t, e)
	})
}
