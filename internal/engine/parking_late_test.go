package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestPitfall266_PutOffAgainIsLate: a parked message that was put off again for a short time waited for the next look that others might need,
// a third of the lease later, if another one was parked behind it.
func TestPitfall266_PutOffAgainIsLate(t *testing.T) {
	lanes := func() *engine.Lanes { return engine.NewLanes(scope, "log") }
	for name, in := range map[string]func() []*engine.Item{
		"alone":        func() []*engine.Item { return items(1, noLane) },
		"of a key":     func() []*engine.Item { return ofKey(lanes(), 1, 0, 1) },
		"before one":   func() []*engine.Item { return ofKey(lanes(), 1, 0, 2) },
		"before three": func() []*engine.Item { return ofKey(lanes(), 1, 0, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const after, tries = 4 * time.Second, 4
				o := options()
				o.Lease, o.ParkAfter = time.Minute, 2*time.Second
				list := in()
				first := list[0].Msg.ID
				var mu sync.Mutex
				var ran []time.Time
				e, _ := begin(t, memory.New(), o, func(_ context.Context, m *consumer.Message) error {
					if m.ID != first {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					if ran = append(ran, time.Now()); len(ran) < tries {
						return consumer.RetryAfter(errors.New("not yet"), after)
					}
					return nil
				}, parks)
				pass(time.Second)
				e.Offer(list)
				pass(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if len(ran) != tries {
					t.Fatalf("%d runs, want %d", len(ran), tries)
				}
				for i := range tries - 1 {
					if d := ran[i+1].Sub(ran[i]); d < after || d > after+time.Second {
						t.Errorf("run %d comes %s after the one before, want %s", i+1, d, after)
					}
				}
				end(t, e)
			})
		})
	}
}
