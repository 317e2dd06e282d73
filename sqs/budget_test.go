package sqs

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// A worker whose budget of archived bytes is spent polls and runs nothing, is not ready, and goes on once there is room: each
// message runs once, and is archived or done.
func TestBudgetOfArchivedBytes(t *testing.T) {
	for _, kind := range []string{"", ".fifo"} {
		t.Run("queue"+kind, func(t *testing.T) {
			const budget, size = 1 << 20, 16 << 10
			s := newSite(t, kind, 3)
			bodies := numbers("g:", 150)
			for i := range bodies {
				bodies[i] += strings.Repeat(".", size)
			}
			s.send(bodies[:140]...)
			var mended atomic.Bool
			var refused atomic.Int64
			b, c := newBook(), quick()
			c.Concurrency, c.ArchiveBudget, c.Breaker.Off, c.WaitTime = 4, budget, true, time.Second
			r := s.start(func(ctx context.Context, m *consumer.Message) error {
				if err := b.handle(ctx, m); err != nil || mended.Load() {
					return err
				}
				refused.Add(1)
				return consumer.Terminal(errors.New("the bug"))
			}, c)
			eventually(t, "the budget is spent", func() bool {
				h := r.Health()
				return !h.Ready && strings.Contains(h.LastError, "the budget of archived bytes is spent")
			})
			r.pollsNoMore()
			s.send(bodies[140:]...)
			always(t, 3*time.Second, "nothing is polled", func() bool { return s.srv.Counts(s.name).Polls == 0 })
			var ids [][]byte
			for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, d.Key.ID)
			}
			if n := len(ids); int64(n) != refused.Load() || n < budget/(2*size) || n > budget/size+c.Concurrency {
				t.Errorf("%d messages are archived, %d were refused", n, refused.Load())
			}
			mended.Store(true)
			purge := ledger.PurgeRequest{Filter: ledger.Filter{IDs: ids[:10]}, By: ledger.By{Actor: "tests", Reason: "room"}}
			if p, err := s.ledger.Purge(t.Context(), purge); err != nil || p.Purged != 10 {
				t.Fatalf("%+v, %v", p, err)
			}
			s.empty()
			eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
			r.end()
			b.once(t, bodies)
			s.noDead()
		})
	}
}
