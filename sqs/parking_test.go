package sqs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// A retry that waits in the ledger is deleted from its queue, and comes to its handler as the queue's message would.
func TestRetryIsParked(t *testing.T) {
	s := newSite(t, "", 100)
	var mu sync.Mutex
	var seen []consumer.Message
	c := steady()
	c.ParkAfter = time.Second
	ids := s.send("m")
	r := s.start(func(_ context.Context, m *consumer.Message) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, m.Clone())
		if len(seen) == 1 {
			return consumer.RetryAfter(errors.New("not yet"), 5*time.Second)
		}
		return nil
	}, c)
	parking := s.ledger
	eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
	scope := r.queue.scope
	eventually(t, "it is parked", func() bool {
		n, err := parking.ParkedIn(t.Context(), scope)
		return err == nil && n.Messages == 1
	})
	s.empty()
	eventually(t, "it has succeeded", func() bool { return s.record(r.Worker, ids[0]).State == ledger.Succeeded })
	r.end()
	if n, err := parking.ParkedIn(context.Background(), scope); err != nil || n.Messages != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	if len(seen) != 2 {
		t.Fatalf("%d runs", len(seen))
	}
	first, second := seen[0], seen[1]
	if first.Attempt != 1 || second.Attempt != 2 || string(second.Body) != "m" || second.ID != ids[0] || second.Source != first.Source ||
		second.Group != first.Group || !second.SentAt.Equal(first.SentAt) ||
		!slices.EqualFunc(first.Headers, second.Headers, func(a, b consumer.Header) bool {
			return a.Name == b.Name && string(a.Value) == string(b.Value) && a.Type == b.Type
		}) {
		t.Errorf("%+v\n%+v", first, second)
	}
}
