package engine_test

import (
	"context"
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

// TestPitfall267_OutboxFullForADay: what was to publish while the outbox was full counted from the sixth time on, and failed for good. Now it
// waits, however long, is tried once a minute at least, and others run meanwhile.
func TestPitfall267_OutboxFullForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		var full atomic.Bool
		var runs atomic.Int64
		full.Store(true)
		e, b := begin(t, l, options(), func(ctx context.Context, m *consumer.Message) error {
			if m.ID != "publishes" {
				return nil
			}
			runs.Add(1)
			return memory.InTx(ctx, func(context.Context) error {
				if full.Load() {
					return ledger.MarkUnavailable(fmt.Errorf("outbox: %w", ledger.ErrOutboxFull))
				}
				return nil
			})
		})
		it := item("publishes", "")
		pass(time.Second)
		e.Offer([]*engine.Item{it})
		pass(time.Hour)
		other := item("other", "")
		e.Offer([]*engine.Item{other})
		pass(time.Second)
		b.wantAcked(t, other)
		pass(23 * time.Hour)
		n := runs.Load()
		if rec := state(t, l, it); rec.State != ledger.Pending || rec.Attempts != 0 || n < 24*60 || n > 25*60+100 {
			t.Errorf("after a day and %d runs: %v, %d attempts", n, rec.State, rec.Attempts)
		}
		full.Store(false)
		pass(2 * time.Minute)
		b.wantAcked(t, it)
		end(t, e)
	})
}
