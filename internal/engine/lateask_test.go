package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A handler's context that is asked for the first time once the next attempt has begun still has its own attempt's token.
func TestWhoAsksLateIsOfItsOwnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []context.Context
		e, b := begin(t, memory.New(), options(), func(ctx context.Context, _ *consumer.Message) error {
			if kept = append(kept, ctx); len(kept) == 1 {
				return errors.New("not yet")
			}
			return nil
		})
		in := items(1, noLane)
		e.Offer(in)
		pass(time.Hour)
		b.wantAcked(t, in...)
		for i, ctx := range kept {
			if token := consumer.Token(ctx); token != uint64(i+1) {
				t.Errorf("attempt %d has token %d", i+1, token)
			}
		}
		end(t, e)
	})
}

// So it is for a batch handler's messages.
func TestWhoAsksLateOfABatchIsOfItsOwnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []context.Context
		var of []*consumer.Message
		h := consumer.Batch(8, func(ctx context.Context, batch []*consumer.Message) []error {
			kept, of = append(kept, ctx), append(of, batch[0])
			if len(kept) == 1 {
				return []error{errors.New("not yet")}
			}
			return nil
		})
		e, b := begin(t, memory.New(), options(), nil, func(c *engine.Config) { c.Handler = h })
		in := items(1, noLane)
		e.Offer(in)
		pass(time.Hour)
		b.wantAcked(t, in...)
		for i, ctx := range kept {
			if token := consumer.Token(consumer.For(ctx, of[i])); token != uint64(i+1) {
				t.Errorf("attempt %d has token %d", i+1, token)
			}
		}
		end(t, e)
	})
}
