package sqs

import (
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// An operator's pause: what runs goes on, polls end, what is left in the queue stays there, and the worker stays ready. Then each message
// runs once.
func TestPausedByAnOperator(t *testing.T) {
	s, g, c := newSite(t, "", 100), newGate(), steady()
	c.Lease = 3 * time.Second
	s.send("running")
	r := s.start(g.handle, c)
	eventually(t, "it runs", func() bool { return g.len() == 1 })
	by := ledger.By{Actor: "alice"}
	if err := s.ledger.Pause(t.Context(), "", by); err != nil {
		t.Fatal(err)
	}
	paused := func() bool {
		return slices.ContainsFunc(r.Health().Stalled, func(s consumer.Stall) bool { return s.Reason == consumer.StallPaused && s.Why == "paused by alice" })
	}
	eventually(t, "it is paused", paused)
	r.pollsNoMore()
	s.send("later")
	g.release()
	eventually(t, "what ran is done", func() bool { q := s.srv.Counts(s.name); return q.InFlight == 0 && q.Visible == 1 })
	always(t, 4*time.Second, "the other is left alone, and the worker is well", func() bool {
		h := r.Health()
		return s.srv.Counts(s.name).Visible == 1 && h.Ready && h.Alive && paused()
	})
	if w, err := s.ledger.Workers(t.Context()); err != nil || len(w) != 1 || w[0].Report.Scope != r.queue.scope || w[0].Report.Succeeded != 1 || w[0].Report.Lag != nil {
		t.Errorf("it reports %+v, %v", w, err)
	}
	if was, err := s.ledger.Resume(t.Context(), "", by); err != nil || !was {
		t.Fatal(was, err)
	}
	s.empty()
	r.end()
	g.book.once(t, []string{"running", "later"})
}
