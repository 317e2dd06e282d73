package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// beats is time for a beat, and most of the time to the next one: a lease is 6 s.
const beats = 3 * time.Second

func all(*engine.Item) bool { return true }

// What a worker gives back without a trace was counted when it was claimed, and taken off with a later beat: killed before that,
// the worker had counted messages that its successor counted again.
func TestGivenBackCountsOnceThoughTheWorkerIsKilled(t *testing.T) {
	for _, name := range []string{"given back", "its answer is lost", "its answer and its lease are lost"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkload(t, true)
				in := w.fresh(20, "")
				for _, it := range in {
					w.slow[it.Msg.ID] = true
				}
				w.Offer(in)
				pass(beats)
				if name != "given back" {
					w.net.set(nil, only(memory.Settle, errDown))
				}
				w.Drop(all, 0)
				pass(time.Second)
				if name != "its answer and its lease are lost" {
					died(t, w.Engine, w.net)
					pass(time.Minute)
				}

				next := workloadOn(t, w.l, true)
				again := next.again(in)
				next.Offer(again)
				pass(time.Minute)
				if name == "its answer and its lease are lost" {
					w.l.Declare(w.net.owner())
					w.net.set(nil, nil)
					pass(time.Minute)
					end(t, w.Engine)
				}
				next.wantAcked(t, again...)
				end(t, next.Engine)
				if got := misses(t, w.l); got > 20 || name == "given back" && got < 20 || got == 0 {
					t.Errorf("20 messages were counted as %d", got)
				}
			})
		})
	}
}

// A message that has failed once counts from then on, though it ends only after its worker was killed: its next claim is a retry.
func TestFailedOnceIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(t, true)
		in := w.fresh(3, "")
		in[1].Key.Scope = "tests/other"
		for _, it := range in {
			w.fails[it.Msg.ID] = 100
		}
		w.Offer(in)
		pass(beats)
		died(t, w.Engine, w.net)
		pass(time.Hour)
		next := workloadOn(t, w.l, true)
		again := next.again(in)
		again[1].Key.Scope = in[1].Key.Scope
		next.Offer(again)
		pass(time.Minute)
		next.wantAcked(t, again...)
		end(t, next.Engine)
		wantCounted(t, w.l, "by both", ledger.Deliveries{Scope: scope, Misses: 2}, ledger.Deliveries{Scope: in[1].Key.Scope, Misses: 1})
	})
}

// The same of records that were claimed together: some were done, one was stuck, and those of its lane had not begun.
func TestStretchGivenBackCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, func(ctx context.Context, offset int64) error {
			if offset == 50 {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		r := s.records(100)
		s.OfferStretch(r.stretch())
		pass(beats)
		s.Drop(all, 0)
		pass(time.Second)
		died(t, s.Engine, s.net)
		pass(time.Minute)
		if len(s.keeps) != 6 || len(s.acks) != 104 {
			t.Errorf("%d done, %d given back: want 104 and 6", len(s.acks), len(s.keeps))
		}

		rest := &stretches{t: t, acks: map[int64]int{}, keeps: map[int64]int{}}
		rest.startOn(s.l, func(context.Context, *consumer.Message) error { return nil }) // and 10 duplicates
		for _, it := range r.Items(0, r.Len()) {
			if s.keeps[it.Key.Pos.Offset] > 0 {
				rest.Offer([]*engine.Item{it})
			}
		}
		pass(time.Minute)
		end(t, rest.Engine)
		wantCounted(t, s.l, "by both", ledger.Deliveries{Scope: scope, Misses: s.next, Hits: 10})
	})
}

// died ends an engine as a worker that is killed does: nothing of it reaches the ledger any more.
func died(t *testing.T, e *engine.Engine, net *link) {
	t.Helper()
	net.set(func(memory.Op) error { return errDown }, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := e.Close(ctx); err == nil {
		t.Error("a worker that cannot reach the ledger left it")
	}
}

// misses is what the ledger has of first claims.
func misses(t *testing.T, l *memory.Ledger) (n int64) {
	t.Helper()
	s, err := l.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range s.Deliveries {
		n += d.Misses
	}
	return n
}
