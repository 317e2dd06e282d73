package lambdasqs

import (
	"context"
	"errors"
	"sync"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
)

// groups are the message groups of a FIFO queue that have stopped: nothing of them begins any more.
type groups struct {
	mu      sync.Mutex
	stopped map[string]bool
}

func (g *groups) stop(group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped == nil {
		g.stopped = map[string]bool{}
	}
	g.stopped[group] = true
}

func (g *groups) has(group string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped[group]
}

// ordered returns the handler that stops a group before the engine knows of the failure, and so before the next message of the group
// could begin.
func (g *groups) ordered(h consumer.Handler) consumer.Handler {
	if b, ok := h.(consumer.BatchHandler); ok {
		return &orderedBatch{BatchHandler: b, groups: g}
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		failed, group := true, engine.ItemFrom(ctx).OrderingKey
		defer func() { // also after a panic or a Goexit
			if failed {
				g.stop(group)
			}
		}()
		err := h.Handle(ctx, m)
		failed = err != nil
		return err
	})
}

// orderedBatch is ordered for a batch handler. Of a group at most one message is in a batch. Messages of a batch that came to nothing
// are handled again at once, one by one, and stay the first of their groups meanwhile: they stop nothing.
type orderedBatch struct {
	consumer.BatchHandler
	groups *groups
}

// HandleBatch implements consumer.BatchHandler.
func (b *orderedBatch) HandleBatch(ctx context.Context, batch []*consumer.Message) []error {
	names := make([]string, len(batch)) // the handler may change its messages
	for i, m := range batch {
		names[i] = m.Group
	}
	alone, returned := len(batch) == 1, false
	defer func() {
		if alone && !returned {
			b.groups.stop(names[0])
		}
	}()
	errs := b.BatchHandler.HandleBatch(ctx, batch)
	returned = true
	spoilt := errs != nil && len(errs) != len(batch) || errors.Is(context.Cause(ctx), consumer.ErrTimeout)
	for i, name := range names {
		if errs != nil && (spoilt && alone || !spoilt && errs[i] != nil) {
			b.groups.stop(name)
		}
	}
	return errs
}
