package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A ledger that does not answer is asked less and less often, by each worker, until the lease is nearly over; one that answers again
// is asked as before.
func TestBeatsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		o.Lease = 30 * time.Second
		e, _ := begin(t, l, o, func(context.Context, *consumer.Message) error { return nil })
		var beats atomic.Int64
		l.FailBefore(func(_ context.Context, op memory.Op) error {
			if op == memory.Beat {
				beats.Add(1)
				return errBoom
			}
			return nil
		})
		pass(24 * time.Second)
		if n := beats.Load(); n < 5 || n > 20 {
			t.Errorf("%d beats in 14 seconds of an outage, want a few", n)
		}
		beats.Store(0)
		l.FailBefore(func(_ context.Context, op memory.Op) error {
			if op == memory.Beat {
				beats.Add(1)
			}
			return nil
		})
		pass(5 * time.Second)
		if h := e.Health(); !h.Ready {
			t.Errorf("the ledger answers again: %+v", h)
		}
		beats.Store(0)
		pass(time.Minute)
		if n := beats.Load(); n < 5 || n > 7 {
			t.Errorf("%d beats a minute, want one for each third of the lease", n)
		}
		end(t, e)
	})
}

// Stretches that go well are claimed, run and settled one after the other without a pause.
func TestStretchesGoWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, succeeds)
		began := time.Now()
		for range 20 {
			s.offer(50)
			synctest.Wait()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
		s.want(1000, nil)
		end(t, s.Engine)
	})
}

// The bodies of a stretch count as its messages' would, from when it is offered until they are done.
func TestStretchCountsItsBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStretches(t, func(context.Context, int64) error { time.Sleep(time.Second); return nil })
		_, before := s.Room()
		s.offer(90) // offsets of two digits
		_, after := s.Room()
		if got, want := before-after, int64(90*len("body of a-10")); got != want {
			t.Errorf("%d bytes count, want %d", got, want)
		}
		pass(5 * time.Minute)
		if _, after := s.Room(); after != before {
			t.Errorf("%d bytes count of nothing", before-after)
		}
		end(t, s.Engine)
	})
}
