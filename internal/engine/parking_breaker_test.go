package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestPitfall228_ParkedBehindTheBreaker: while the breaker was open nobody looked for what was due in the ledger. Where nothing else was left to try, it
// stayed open, and what was parked lay there for good.
func TestPitfall228_ParkedBehindTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := memory.New(), options()
		var broken atomic.Bool
		var mu sync.Mutex
		runs := map[string]int{}
		e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			switch runs[m.ID]++; {
			case broken.Load():
				return consumer.Terminal(errors.New("this deploy knows no such message"))
			case runs[m.ID] == 1:
				return consumer.RetryAfter(errors.New("not yet"), time.Hour)
			}
			return nil
		}, parks)
		pass(time.Second)
		in := items(300, noLane)
		late, bad := in[:100], in[100:]
		e.Offer(late)
		pass(time.Minute)
		b.wantAcked(t, late...)
		wantParked(t, l, 100)
		broken.Store(true)
		e.Offer(bad)
		pass(2 * time.Second)
		if h := e.Health(); h.Ready {
			t.Fatal("the breaker is not open")
		}
		<-e.Drop(func(*engine.Item) bool { return true }, 0) // all partitions are revoked: only what is parked is left
		broken.Store(false)
		pass(time.Hour + 3*time.Minute)
		wantParked(t, l, 0)
		if h := e.Health(); !h.Ready {
			t.Errorf("the breaker is still open: %+v", h)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, it := range late {
			if n := runs[it.Msg.ID]; n != 2 {
				t.Fatalf("%s ran %d times", it.Msg.ID, n)
			}
		}
		end(t, e)
	})
}
