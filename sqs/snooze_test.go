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

// A message that is put off comes again with the attempts that it had, however often, and one that then fails has all of them.
func TestSnooze(t *testing.T) {
	s := newSite(t, "", 50)
	c := steady()
	c.Attempts = 2
	var mu sync.Mutex
	var attempts []int
	id := s.send("early")[0]
	run := s.start(func(_ context.Context, m *consumer.Message) error {
		mu.Lock()
		defer mu.Unlock()
		attempts = append(attempts, m.Attempt)
		if len(attempts) <= 5 {
			return consumer.Snooze(time.Millisecond)
		}
		return errors.New("it fails")
	}, c)
	s.empty()
	rec := s.record(run.Worker, id)
	run.end()
	if rec.State != ledger.Failed || len(rec.Archived) != 1 || rec.Archived[0].Attempts != 2 || len(rec.Archived[0].Errors) != 2 {
		t.Errorf("%v, archived %+v", rec.State, rec.Archived)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []int{1, 1, 1, 1, 1, 1, 2}; !slices.Equal(attempts, want) {
		t.Errorf("attempts %v, want %v", attempts, want)
	}
}
