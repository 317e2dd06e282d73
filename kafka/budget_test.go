package kafka

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A worker whose budget of archived bytes is spent reads and runs nothing, is not ready, and goes on where it stopped once there
// is room: each record runs once, and is archived or done.
func TestBudgetOfArchivedBytes(t *testing.T) { onBoth(t, 2, budgetStopsAndGoesOn) }

func budgetStopsAndGoesOn(s *site) {
	t := s.t
	const budget, size = 1 << 20, 32 << 10
	values := numbers("v", 200)
	for i, v := range values {
		body := v + strings.Repeat(".", size-len(v))
		values[i] = body
		s.sendRecords(&kgo.Record{Topic: s.topic, Partition: int32(i % 2), Key: []byte(v), Value: []byte(body)})
	}
	var mended atomic.Bool
	var refused atomic.Int64
	b, c := newBook(), quick()
	c.Concurrency, c.ArchiveBudget, c.Breaker.Off = 4, budget, true
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
	var ids [][]byte
	eventually(t, "what ran is archived", func() bool {
		ids = nil
		for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, d.Key.ID)
		}
		return int64(len(ids)) == refused.Load()
	})
	if n := len(ids); n < budget/(2*size) || n > budget/size+c.Concurrency {
		t.Errorf("%d records are archived", n)
	}
	mended.Store(true)
	purge := ledger.PurgeRequest{Filter: ledger.Filter{IDs: ids[:10]}, By: ledger.By{Actor: "tests", Reason: "room"}}
	if p, err := s.ledger.Purge(t.Context(), purge); err != nil || p.Purged != 10 {
		t.Fatalf("%+v, %v", p, err)
	}
	s.caughtUp()
	r.ready()
	r.end()
	b.once(t, values)
	if n := refused.Load(); n != int64(len(ids)) {
		t.Errorf("%d records were refused, %d are archived", n, len(ids))
	}
}
