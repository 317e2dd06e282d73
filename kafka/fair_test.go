package kafka

import (
	"context"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
)

// A tenant with a share leaves handlers free for the others, whose records lie behind its own in the same partition; all are done once,
// and committed.
func TestFairShare(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		open, noisy, quiet := make(chan struct{}), newBook(), newBook()
		c := quick()
		c.Order, c.Concurrency, c.FairShare = OrderNone, 4, 2
		c.FairBy = func(m *consumer.Message) string { return strings.TrimRight(string(m.Body), "0123456789") }
		s.send(0, numbers("noisy", 50)...)
		s.send(0, numbers("quiet", 20)...)
		run := s.start(func(ctx context.Context, m *consumer.Message) error {
			if strings.HasPrefix(string(m.Body), "quiet") {
				return quiet.handle(ctx, m)
			}
			noisy.add(m)
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, c)
		eventually(t, "the others have run", func() bool { return quiet.len() == 20 && noisy.len() == 2 })
		close(open)
		s.caughtUp()
		run.end()
		quiet.once(t, numbers("quiet", 20))
		noisy.once(t, numbers("noisy", 50))
	})
}
