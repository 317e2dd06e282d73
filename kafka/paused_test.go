package kafka

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// An operator's pause: what runs goes on, nothing else begins, the partitions stay this member's for longer than sessions and leases
// last, and the worker stays ready. It reports how far it is behind. Then each record runs once.
func TestPausedByAnOperator(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		b, c, slow := newBook(), quick(), make(chan struct{})
		c.Lease, c.Drain = 3*time.Second, 10*time.Second
		w := s.worker(func(ctx context.Context, m *consumer.Message) error {
			if string(m.Body) == "slow" {
				select {
				case <-slow:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return b.handle(ctx, m)
		}, c)
		r := runWorker(t, w)
		r.owns(1)
		s.send(0, "slow")
		eventually(t, "it runs", func() bool { return r.eng.Load().Running == 1 })
		at := place{Topic: s.topic}
		mine := r.table.get(at)
		by := ledger.By{Actor: "alice", Reason: "the bank is away"}
		if err := s.ledger.Pause(t.Context(), r.scopes()[0], by); err != nil {
			t.Fatal(err)
		}
		paused := func() bool {
			return slices.ContainsFunc(r.Health().Stalled, func(s consumer.Stall) bool {
				return s.Reason == consumer.StallPaused && s.Why == "paused by alice: the bank is away"
			})
		}
		eventually(t, "it is paused", paused)
		s.send(0, numbers("v", 10)...)
		close(slow)
		eventually(t, "what ran is done, and the rest waits", func() bool {
			workers, err := s.ledger.Workers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rep := workers[0].Report
			return b.len() == 1 && rep.Succeeded == 1 && rep.Scope == r.scopes()[0] && strings.HasPrefix(rep.Paused, "paused by alice") && rep.Ready &&
				len(rep.Lag) == 1 && rep.Lag[0] == (ledger.Lag{Source: s.topic + "-0", Waiting: 10})
		})
		for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(50 * time.Millisecond) {
			if h := r.Health(); b.len() != 1 || !h.Ready || !h.Alive || !paused() || r.owned() != 1 || r.table.get(at) != mine {
				t.Fatalf("in the pause: %d handled, %d partitions, %+v", b.len(), r.owned(), h)
			}
		}
		if was, err := s.ledger.Resume(t.Context(), r.scopes()[0], by); err != nil || !was {
			t.Fatal(was, err)
		}
		s.caughtUp()
		r.ready()
		r.end()
		b.once(t, append(numbers("v", 10), "slow"))
	})
}
