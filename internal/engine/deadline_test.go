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

// A handler's context says how it stands whenever it is asked, and however it is: before the time is up, after it, and when the
// handler has returned, though nobody had asked before.
func TestContextSaysHowItStands(t *testing.T) {
	for name, c := range map[string]struct {
		sleeps time.Duration
		in     error // what it says inside
		after  error // and to whoever kept it
	}{
		"in time":  {time.Second, nil, context.Canceled},
		"too long": {3 * time.Second, context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		for how, ask := range map[string]func(context.Context) error{
			"asked for its error": context.Context.Err,
			"asked for its end": func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				default:
					return nil
				}
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				o := options()
				o.HandlerTimeout = 2 * time.Second
				var kept context.Context
				var in error
				e, b := begin(t, memory.New(), o, func(ctx context.Context, _ *consumer.Message) error {
					time.Sleep(c.sleeps)
					if kept == nil {
						kept, in = ctx, ask(ctx)
					}
					return nil
				})
				it := item("a", "")
				e.Offer([]*engine.Item{it})
				pass(time.Minute)
				b.wantAcked(t, it)
				if !errors.Is(in, c.in) || (in == nil) != (c.in == nil) {
					t.Errorf("%s, %s: inside %v, want %v", name, how, in, c.in)
				}
				if after := ask(kept); !errors.Is(after, c.after) {
					t.Errorf("%s, %s: afterwards %v, want %v", name, how, after, c.after)
				}
				end(t, e)
			})
		}
	}
}
