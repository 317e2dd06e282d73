package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// What batches of a stretch have done is settled though the last of them hangs: a crash then is not to repeat it.
func TestLastBatchOfAStretchHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		b := newInBatches(t, func(_ context.Context, batch []*consumer.Message) []error {
			if batch[len(batch)-1].ID == "a-209" {
				<-let
			}
			return nil
		})
		b.offer(200)
		pass(10 * time.Second)
		if n := len(b.acks); n != 160 {
			t.Errorf("%d records are acknowledged beside the batch that hangs, want 160", n)
		}
		close(let)
		pass(time.Minute)
		b.settled(b.whole)
		end(t, b.Engine)
	})
}

// A handler of a stretch's record is told why it is cancelled.
func TestHandlerInAStretchIsCancelled(t *testing.T) {
	for _, c := range []struct {
		want error
		why  func(s *stretches)
	}{
		{consumer.ErrRevoked, func(s *stretches) { s.Drop(func(*engine.Item) bool { return true }, time.Second) }},
		{ledger.ErrLost, func(s *stretches) { s.net.set(down, nil) }},
		{consumer.ErrShutdown, func(s *stretches) { go func() { _ = s.Drain(context.Background()) }() }},
		{consumer.ErrTimeout, func(s *stretches) { time.Sleep(time.Hour) }},
	} {
		t.Run(c.want.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cause error
				hung := false
				s := newStretches(t, func(ctx context.Context, offset int64) error {
					if offset != 15 || hung {
						return nil
					}
					hung = true
					<-ctx.Done()
					cause = context.Cause(ctx)
					return ctx.Err()
				})
				s.offer(100)
				pass(3 * time.Millisecond)
				c.why(s)
				pass(time.Minute)
				if !errors.Is(cause, c.want) {
					t.Errorf("the cause is %v, want %v", cause, c.want)
				}
				s.net.set(nil, nil)
				pass(time.Hour)
				_ = s.Drain(context.Background())
				_ = s.Close(context.Background())
			})
		})
	}
}
