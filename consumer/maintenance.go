package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ackledger/ackledger/ledger"
)

// Maintenance returns a worker that maintains a ledger, for [Run]: the sweep of what has expired and the statistics. For
// people who want it in a process of its own, or with settings of their own; workers that consume maintain their ledger
// by default. Of all processes one sweeps at a time.
//
// Pause ends the pass that is under way, and Resume begins a new one.
func Maintenance(m ledger.Maintainer, cfg ledger.MaintainConfig) Worker {
	return &maintenance{ledger: m, cfg: cfg, changed: make(chan struct{}, 1)}
}

type maintenance struct {
	ledger  ledger.Maintainer
	cfg     ledger.MaintainConfig
	changed chan struct{} // has a value after Pause and Resume

	ran atomic.Bool

	mu      sync.Mutex
	running bool
	paused  bool
	err     error
}

// Run implements [Worker].
func (w *maintenance) Run(ctx context.Context) error {
	if w.ledger == nil {
		return errors.New("consumer: Maintenance: must be given a ledger, is given nil")
	}
	if !w.ran.CompareAndSwap(false, true) {
		return errors.New("consumer: Maintenance: Run was called before: a worker runs once")
	}
	for ctx.Err() == nil {
		if err := w.until(ctx); err != nil {
			return err
		}
	}
	return nil
}

// until maintains, or rests, until Pause, Resume or the end of ctx.
func (w *maintenance) until(ctx context.Context) error {
	part, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	paused := w.paused
	w.running = !paused
	w.mu.Unlock()
	ended := make(chan error, 1)
	if !paused {
		go func() { ended <- w.ledger.Maintain(part, w.cfg) }()
	}
	select {
	case <-ctx.Done():
	case <-w.changed:
	case err := <-ended:
		ended <- err
	}
	cancel()
	var err error
	if !paused {
		err = <-ended
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.err = false, err
	return err
}

// Health implements [Worker]. Ready says that it maintains, or waits for its turn.
func (w *maintenance) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := Health{Alive: true, Ready: w.running}
	if w.err != nil {
		h.LastError = w.err.Error()
	}
	return h
}

// Pause implements [Worker].
func (w *maintenance) Pause() { w.set(true) }

// Resume implements [Worker].
func (w *maintenance) Resume() { w.set(false) }

func (w *maintenance) set(paused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused == paused {
		return
	}
	w.paused = paused
	select {
	case w.changed <- struct{}{}:
	default:
	}
}
