package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.opentelemetry.io/otel/sdk/metric"
)

// stretches is an engine that is given records of one log, and what became of each.
type stretches struct {
	*engine.Engine
	t     *testing.T
	l     *memory.Ledger
	net   *link
	seen  *metric.ManualReader
	mu    sync.Mutex
	ran   []int64 // offsets, as handlers began
	whole int     // records that came back together
	acks  map[int64]int
	keeps map[int64]int
	next  int64
}

func (s *stretches) Finish(done []engine.Finished) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note := func(offset int64, ack bool) {
		if ack {
			s.acks[offset]++
		} else {
			s.keeps[offset]++
		}
	}
	for _, f := range done {
		if f.Stretch == nil {
			note(f.Item.Key.Pos.Offset, f.Verdict.Ack)
			continue
		}
		s.whole += f.N
		for i := range f.N {
			note(f.Stretch.Records.Offset(i), f.Verdict.Ack)
		}
	}
}

// newStretches starts an engine whose handler is fast and knows the log, so that stretches pay. h is the handler from then
// on.
func newStretches(t *testing.T, h func(ctx context.Context, offset int64) error, change ...func(*consumer.Options)) *stretches {
	t.Helper()
	l := memory.New()
	s := &stretches{t: t, l: l, net: &link{Ledger: l, stretches: true}, acks: map[int64]int{}, keeps: map[int64]int{},
		seen: metric.NewManualReader()}
	o, err := options().WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	o.BackoffBase, o.BackoffMax = time.Second, time.Second
	o.MeterProvider = metric.NewMeterProvider(metric.WithReader(s.seen))
	for _, c := range change {
		c(&o)
	}
	handle := func(ctx context.Context, m *consumer.Message) error {
		var offset int64
		if _, err := fmt.Sscanf(m.ID, "a-%d", &offset); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.ran = append(s.ran, offset)
		s.mu.Unlock()
		if offset < 10 {
			return nil
		}
		return h(ctx, offset)
	}
	s.Engine, err = engine.New(engine.Config{System: "test", Options: o, Ledger: s.net, Sink: s, Handler: consumer.HandlerFunc(handle), Suspects: consumer.NewLimiter(1)})
	if err == nil {
		err = s.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Offer(s.records(10).Items(0, 10))
	pass(time.Second)
	return s
}

// records are the next ones of the log; each lane has every tenth.
func (s *stretches) records(n int) *stormRecords {
	r := &stormRecords{log: "a", lane: func(id string) string { return id[len(id)-1:] }}
	for range n {
		r.offsets = append(r.offsets, s.next)
		s.next++
	}
	r.offers = make([]*offering, n)
	return r
}

func (s *stretches) offer(n int) { s.OfferStretch(s.records(n).stretch()) }

// want expects each record to be acknowledged once and kept so often, and to have run once but for those; and that each was
// counted as new once.
func (s *stretches) want(whole int, ran map[int64]int) {
	s.t.Helper()
	counts := deduplicated(s.t, s.seen)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := counts["miss"]; n != s.next {
		s.t.Errorf("%d records counted as new, want %d", n, s.next)
	}
	if s.whole != whole {
		s.t.Errorf("%d records came back together, want %d", s.whole, whole)
	}
	for o := range s.next {
		times := max(ran[o], 1)
		got := 0
		for _, r := range s.ran {
			if r == o {
				got++
			}
		}
		if s.acks[o] != 1 || s.keeps[o] != 0 || got != times {
			s.t.Errorf("record %d: acknowledged %d times, kept %d times, ran %d times, want %d", o, s.acks[o], s.keeps[o], got, times)
		}
		if rec, err := s.l.Get(s.t.Context(), stormLog("a").key(o)); err != nil || rec.State == ledger.Pending {
			s.t.Errorf("record %d: %+v, %v", o, rec, err)
		}
	}
}

func succeeds(context.Context, int64) error { return nil }

// Records that all go well come back as they were offered, one after the other, with nothing but successes in the ledger.
func TestStretchComesBackWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, succeeds)
		for range 5 {
			s.offer(200)
		}
		pass(time.Second)
		s.want(1000, nil)
		if !slices.IsSorted(s.ran[10:]) {
			t.Errorf("they ran in the order %v", s.ran)
		}
		end(t, s.Engine)
		wantCounted(t, s.l, "after the end", ledger.Deliveries{Scope: scope, Misses: s.next})
	})
}

// A record that fails in the middle is tried again; those of its lane wait behind it, the others do not.
func TestStretchSplitsAtAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		s := newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 50 && !failed {
				failed = true
				return consumer.RetryAfter(errBoom, time.Second)
			}
			return nil
		})
		s.offer(100)
		s.offer(100)
		pass(500 * time.Millisecond)
		s.mu.Lock()
		for o := range s.next {
			if waits := o >= 50 && o%10 == 0; (s.acks[o] == 1) == waits {
				t.Errorf("record %d, while 50 waits: acknowledged %d times", o, s.acks[o])
			}
		}
		s.mu.Unlock()
		pass(5 * time.Second)
		s.want(0, map[int64]int{50: 2})
		end(t, s.Engine)
	})
}

// Behind a slow handler the others go on.
func TestStretchIsSplitBehindASlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 50 {
				time.Sleep(time.Minute)
			}
			return nil
		})
		s.offer(100)
		pass(time.Second)
		s.mu.Lock()
		for o := range s.next {
			if waits := o >= 50 && o%10 == 0; (s.acks[o] == 1) == waits {
				t.Errorf("record %d, while 50 runs: acknowledged %d times", o, s.acks[o])
			}
		}
		s.mu.Unlock()
		pass(2 * time.Minute)
		s.want(0, nil)
		end(t, s.Engine)
	})
}

// Another copy of a record that is in a stretch, in no lane of its own, runs neither beside it nor after it.
func TestStretchSpeaksForItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 50 {
				time.Sleep(500 * time.Microsecond) // less than what it is rescued after
			}
			return nil
		})
		r := s.records(100)
		s.OfferStretch(r.stretch())
		time.Sleep(100 * time.Microsecond)    // it is in 50
		for _, i := range []int{10, 40, 70} { // of the stretch: done, running, not begun
			it := r.Items(i, i+1)[0]
			it.OrderingKey = ""
			s.Offer([]*engine.Item{it})
		}
		pass(time.Minute)
		s.mu.Lock()
		for _, i := range []int{10, 40, 70} {
			o := r.offsets[i]
			if s.acks[o] != 2 {
				t.Errorf("record %d and its copy: acknowledged %d times", o, s.acks[o])
			}
			s.acks[o] = 1
		}
		s.mu.Unlock()
		s.want(0, nil)
		end(t, s.Engine)
	})
}

// A claim, and a settlement, whose answer is lost: every record is done, and acknowledged once.
func TestStretchAnswersAreLost(t *testing.T) {
	for _, op := range []memory.Op{memory.Claim, memory.Settle} {
		t.Run(fmt.Sprint(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStretches(t, succeeds)
				s.net.set(nil, only(op, errors.New("the answer is lost")))
				s.offer(100)
				pass(time.Second)
				s.net.set(nil, nil)
				pass(time.Minute)
				s.want(0, nil)
				end(t, s.Engine)
			})
		})
	}
}

// A lease that is lost while a stretch runs: what has begun ends, and all is asked for again in its order.
func TestStretchOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *stretches
		declared := false
		s = newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 50 && !declared {
				declared = true
				s.l.Declare(s.net.owner())
			}
			return nil
		})
		s.offer(100)
		pass(time.Minute)
		s.mu.Lock()
		for o := range s.next {
			if s.acks[o] != 1 {
				t.Errorf("record %d: acknowledged %d times", o, s.acks[o])
			}
		}
		s.mu.Unlock()
		end(t, s.Engine)
		wantCounted(t, s.l, "after the end", ledger.Deliveries{Scope: scope, Misses: s.next})
	})
}

// A revoked partition: what has not begun comes back unacknowledged at once, what runs when it has ended.
func TestStretchIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, func(_ context.Context, offset int64) error {
			if offset == 50 {
				time.Sleep(500 * time.Microsecond) // less than what it is rescued after
			}
			return nil
		})
		s.offer(100)
		s.offer(100)
		time.Sleep(100 * time.Microsecond) // it is in 50
		<-s.Drop(func(*engine.Item) bool { return true }, time.Minute)
		s.mu.Lock()
		for o := range s.next {
			if acked := o <= 50; s.acks[o]+s.keeps[o] != 1 || (s.acks[o] == 1) != acked {
				t.Errorf("record %d: acknowledged %d times, kept %d times", o, s.acks[o], s.keeps[o])
			}
		}
		s.mu.Unlock()
		if load := s.Load(); load != (engine.Load{}) {
			t.Errorf("left: %+v", load)
		}
		end(t, s.Engine)
	})
}
