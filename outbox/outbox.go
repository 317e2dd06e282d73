package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// New returns a worker that relays for a ledger, for consumer.Run. It refuses settings out of their bounds, and a ledger that has no outbox
// ([ledger.ErrNoOutbox]).
func New(l ledger.Ledger, relay consumer.Relay) (consumer.Worker, error) {
	if engine.IsNil(l) {
		return nil, errors.New("outbox: New: the ledger must not be nil")
	}
	r, err := engine.NewRelay(l, relay)
	if err != nil {
		return nil, err
	}
	return &worker{relay: r, changed: make(chan struct{}, 1)}, nil
}

type worker struct {
	relay   *engine.Relay
	ran     atomic.Bool
	running atomic.Bool
	paused  atomic.Bool
	changed chan struct{}
}

// Run implements [consumer.Worker]. A ledger whose store has no outbox ends it ([ledger.ErrNoOutbox]).
func (w *worker) Run(ctx context.Context) error {
	if !w.ran.CompareAndSwap(false, true) {
		return errors.New("outbox: Run was called before: a worker runs once")
	}
	defer w.relay.Close()
	for ctx.Err() == nil {
		if !w.paused.Load() {
			if err := w.until(ctx); err != nil {
				return fmt.Errorf("outbox: %w", err)
			}
			continue
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// until relays until it is paused or ctx ends.
func (w *worker) until(ctx context.Context) error {
	part, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-w.changed:
			cancel()
		case <-part.Done():
		}
	}()
	w.running.Store(true)
	err := w.relay.Run(part)
	w.running.Store(false)
	cancel()
	<-over
	return err
}

// Health implements [consumer.Worker]. Ready says that it relays.
func (w *worker) Health() consumer.Health {
	return consumer.Health{Alive: true, Ready: w.running.Load()}
}

// Pause implements [consumer.Worker]. The batch that is under way goes on to its end.
func (w *worker) Pause() { w.set(true) }

// Resume implements [consumer.Worker].
func (w *worker) Resume() { w.set(false) }

func (w *worker) set(paused bool) {
	if w.paused.Swap(paused) == paused {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}
