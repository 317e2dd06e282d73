package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Config.Failed is told of a failed run before what stands behind it begins, and of nothing else.
func TestFailuresAreToldBeforeWhatIsBehindThemBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		say := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprintf(format, args...))
		}
		in := make([]*engine.Item, 5)
		for i, id := range []string{"good", "swallows", "retried", "terminal", "last"} {
			in[i] = item(id, "lane")
		}
		e, b := begin(t, memory.New(), options(), func(ctx context.Context, m *consumer.Message) error {
			say("run %s %d", m.ID, m.Attempt)
			switch {
			case m.ID == "terminal":
				return consumer.Terminal(errBoom)
			case m.ID == "retried" && m.Attempt == 1:
				return errBoom
			case m.ID == "swallows" && m.Attempt == 1:
				_ = memory.InTx(ctx, func(context.Context) error { return errBoom })
			case m.ID == "last":
				return errors.Join(memory.InTx(ctx, func(context.Context) error { return nil }), errBoom) // it has succeeded all the same
			}
			return nil
		}, func(c *engine.Config) { c.Failed = func(it *engine.Item) { say("failed %s", it.Msg.ID) } })
		e.Offer(in)
		pass(time.Minute)
		b.wantAcked(t, in...)
		want := []string{
			"run good 1", "run swallows 1", "failed swallows", "run swallows 2", "run retried 1", "failed retried", "run retried 2",
			"run terminal 1", "failed terminal", "run last 1",
		}
		if !slices.Equal(said, want) {
			t.Errorf("said\n%q, want\n%q", said, want)
		}
		end(t, e)
	})
}
