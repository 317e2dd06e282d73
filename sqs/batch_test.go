package sqs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// startBatch runs a worker with a batch handler.
func (s *site) startBatch(size int, h func(context.Context, []*consumer.Message) []error, c *Config) *running {
	s.t.Helper()
	if c == nil {
		c = quick()
	}
	w, err := NewWorker(s.client, s.url, s.ledger, consumer.Batch(size, h), c)
	if err != nil {
		s.t.Fatal(err)
	}
	return runWorker(s.t, w)
}

// One message of many breaks every batch that it is in: it alone is archived, all others are handled and deleted, and
// none of them has an attempt counted.
func TestBatchWithPoison(t *testing.T) {
	for _, kind := range []string{"", ".fifo"} {
		t.Run("queue"+kind, func(t *testing.T) {
			s := newSite(t, kind, 100)
			bodies := make([]string, 120)
			for i := range bodies {
				bodies[i] = fmt.Sprintf("group%d:%03d", i%30, i)
			}
			ids := s.send(bodies...)
			var mu sync.Mutex
			alone, largest, done := map[string]int{}, 0, map[string]int{}
			w := s.startBatch(50, func(_ context.Context, batch []*consumer.Message) []error {
				mu.Lock()
				defer mu.Unlock()
				largest = max(largest, len(batch))
				groups := map[string]bool{}
				for _, m := range batch {
					if kind != "" && groups[m.Group] {
						t.Errorf("two messages of %s in one batch", m.Group)
					}
					groups[m.Group] = true
					if len(batch) == 1 {
						alone[m.ID]++
					}
					if string(m.Body) == bodies[7] {
						panic("poison")
					}
				}
				for _, m := range batch {
					done[m.ID]++
				}
				return nil
			}, func() *Config { c := quick(); c.Attempts, c.Concurrency = 3, 2; return c }())
			s.empty()
			w.end()
			if largest < 2 {
				t.Error("no batch had more than one message")
			}
			for i, id := range ids {
				rec, err := s.ledger.Get(t.Context(), ledger.Key{Scope: w.queue.scope, ID: []byte(id)})
				switch {
				case err != nil:
					t.Error(err)
				case i == 7 && (rec.State != ledger.Failed || len(rec.Archived) != 1 || alone[id] != 3):
					t.Errorf("poison: %+v, alone %d times", rec, alone[id])
				case i != 7 && (rec.State != ledger.Succeeded || rec.Attempts != 0 || done[id] != 1):
					t.Errorf("message %d: %+v, done %d times", i, rec, done[id])
				}
			}
		})
	}
}

// The worker ends after a batch's transaction has committed and before anything is deleted: the messages come again, are
// recognised and deleted, and their effects are there once.
func TestBatchIsRecognisedAfterItsWorkerEnded(t *testing.T) {
	s := newSite(t, "", 100)
	var mu sync.Mutex
	effects := map[string]int{}
	handle := func(hang <-chan struct{}) func(context.Context, []*consumer.Message) []error {
		return func(ctx context.Context, batch []*consumer.Message) []error {
			err := memory.InTx(ctx, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				for _, m := range batch {
					effects[string(m.Body)]++
				}
				return nil
			})
			<-hang
			errs := make([]error, len(batch))
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	bodies := numbers("m", 40)
	s.send(bodies...)
	hang := make(chan struct{})
	defer close(hang)
	c := quick()
	c.Drain, c.Concurrency = 100*time.Millisecond, 8
	first := s.startBatch(10, handle(hang), c)
	eventually(t, "all are committed", func() bool { mu.Lock(); defer mu.Unlock(); return len(effects) == len(bodies) })
	first.stop()
	if err := first.wait(); err == nil {
		t.Error("the worker ended well, although its handlers hang")
	}
	over := make(chan struct{})
	close(over)
	second := s.startBatch(10, handle(over), nil)
	s.empty()
	second.end()
	for _, b := range bodies {
		if effects[b] != 1 {
			t.Errorf("the effect of %s happened %d times", b, effects[b])
		}
	}
}

var errNotYet = errors.New("not yet")

// Each message's own error is retried by itself, and its result is its own.
func TestBatchErrorsAreRetried(t *testing.T) {
	s := newSite(t, "", 100)
	ids := s.send(numbers("m", 30)...)
	w := s.startBatch(10, func(ctx context.Context, batch []*consumer.Message) []error {
		errs := make([]error, len(batch))
		for i, m := range batch {
			if m.Attempt < 1+int(m.Body[3]-'0')%3 {
				errs[i] = errNotYet
			} else if err := consumer.SetResult(consumer.For(ctx, m), m.Body); err != nil {
				t.Error(err)
			}
		}
		return errs
	}, nil)
	s.empty()
	w.end()
	for i, id := range ids {
		rec, err := s.ledger.Get(t.Context(), ledger.Key{Scope: w.queue.scope, ID: []byte(id)})
		if err != nil || rec.Attempts != i%10%3 || string(rec.Result) != fmt.Sprintf("m%03d", i) {
			t.Errorf("message %d: %+v, %v", i, rec, err)
		}
	}
}
