package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestPitfall268_BehindABacklog: a worker that polls as soon as there is room left none for what was parked and due: that waited until the
// backlog was over.
func TestPitfall268_BehindABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.MaxHeld, o.Concurrency, o.ParkAfter = 100, 4, time.Second
		began := time.Now()
		var second atomic.Int64 // when it ran again
		e, _ := begin(t, memory.New(), o, func(_ context.Context, m *consumer.Message) error {
			switch {
			case m.ID != "retried":
				time.Sleep(7 * time.Millisecond)
			case m.Attempt == 1:
				return consumer.RetryAfter(errors.New("not yet"), 2*time.Second)
			default:
				second.Store(int64(time.Since(began)))
			}
			return nil
		}, parks)
		e.Offer([]*engine.Item{item("retried", "")})
		ctx, cancel := context.WithCancel(t.Context())
		polled := make(chan struct{})
		go func() {
			defer close(polled)
			backlog(ctx, e)
		}()
		pass(time.Minute)
		if d := time.Duration(second.Load()); d == 0 || d > 5*time.Second {
			t.Errorf("it ran again after %s; %+v", d, e.Load())
		}
		cancel()
		<-polled
		end(t, e)
	})
}

// backlog offers messages as soon as there is room.
func backlog(ctx context.Context, e *engine.Engine) {
	for n := 0; ctx.Err() == nil; {
		changed := e.Changed()
		room, bytes := e.Room()
		if room <= 0 || bytes <= 0 || !e.Open() {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		var some []*engine.Item
		for range (room + 1) / 2 {
			n++
			some = append(some, item(fmt.Sprint("b", n), ""))
		}
		time.Sleep(100 * time.Microsecond) // the poll
		e.Offer(some)
	}
}

// TestPitfall269_BehindWhatWaitsInMemory: retries that waited in memory, since no more could be parked, took all that may be in hand, for hours.
// What was parked and due waited as well, while handlers had nothing to do.
func TestPitfall269_BehindWhatWaitsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := memory.New(), options()
		o.MaxHeld, o.Concurrency, o.ParkAfter, o.ParkedMost = 100, 8, time.Second, 10
		var again atomic.Int64
		e, _ := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
			switch {
			case m.Attempt == 1 && strings.HasPrefix(m.ID, "first"):
				return consumer.RetryAfter(errors.New("not yet"), time.Minute)
			case m.Attempt == 1:
				return consumer.RetryAfter(errors.New("not yet"), 11*time.Hour)
			}
			again.Add(1)
			return nil
		}, parks)
		offer := func(name string, n int) {
			var in []*engine.Item
			for i := range n {
				in = append(in, item(fmt.Sprint(name, i), ""))
			}
			e.Offer(in)
			pass(10 * time.Second)
		}
		offer("first", 10)
		offer("then", 100)
		pass(10 * time.Minute)
		if n := again.Load(); n != 10 || e.Load().Held > 110 {
			t.Errorf("%d of 10 that were due ran; %+v", n, e.Load())
		}
		end(t, e)
	})
}
