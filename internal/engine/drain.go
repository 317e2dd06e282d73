package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
)

// Drop takes back the items that match (a revoked partition, an expired handle). What was not started is released and finished
// at once; what runs may go on for grace and is then cancelled with consumer.ErrRevoked. The channel is closed when all that
// matched is finished and the sink has returned, also from calls that were under way. match is called under the engine's lock: it
// must not call the engine.
func (e *Engine) Drop(match func(*Item) bool, grace time.Duration) <-chan struct{} {
	ended := make(chan struct{})
	e.do(func(f *flow.Flow, now time.Duration) {
		f.Drop(now, func(it *flow.Item) bool { return !it.Parked && match(it.Of.(*Item)) }, grace, ended)
	})
	return ended
}

// DrainError says what still ran when the drain's time was up. It is left to the next owner, uncounted.
type DrainError struct {
	Limit time.Duration
	IDs   []string // of the messages, at most 10
	More  int
}

// Error names the messages.
func (d *DrainError) Error() string {
	s := fmt.Sprintf("drain: must end within %s, still in hand: %s", d.Limit, strings.Join(d.IDs, ", "))
	if d.More > 0 {
		s += fmt.Sprintf(" and %d more", d.More)
	}
	return s
}

// Drain stops the start of handlers, releases what was not started, waits for the running ones up to Options.Drain and finishes
// everything; in time, the sink has returned from all of it. It returns an error that names what still ran. It is called once;
// ctx bounds it.
func (e *Engine) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.opt.Drain)
	defer cancel()
	e.life.endStarts()
	ended, drop := make(chan struct{}), (*flow.Drop)(nil)
	e.do(func(f *flow.Flow, now time.Duration) { drop = f.Drain(now, ended) })
	defer time.AfterFunc(e.opt.Drain-e.opt.Drain/5, e.publisher.end).Stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	stuck := e.cancelRunning()
	select { // a moment for handlers that end when they are told to
	case <-ended:
		return nil
	case <-time.After(min(time.Second, e.opt.Drain/10)):
	}
	e.do(func(f *flow.Flow, _ time.Duration) { f.TellRest(drop, flow.Shutdown) })
	return stuck
}

// cancelRunning cancels the handlers that the drain waited for in vain, and names all that is still in hand.
func (e *Engine) cancelRunning() error {
	stuck := &DrainError{Limit: e.opt.Drain}
	e.do(func(f *flow.Flow, _ time.Duration) {
		f.CancelAll(func(it *flow.Item) {
			if len(stuck.IDs) < 10 {
				stuck.IDs = append(stuck.IDs, string(it.Key.ID))
			} else {
				stuck.More++
			}
		})
	})
	return stuck
}

// Close leaves the ledger and ends all goroutines but those of deaf handlers.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.flow.Closed() {
		e.mu.Unlock()
		return errors.New("engine: closed already")
	}
	idle := len(e.pool.chunks) == 0
	e.flow.Close(e.now())
	e.wait.endAll()
	e.unlock()
	e.life.endStarts()
	e.life.giveUp()
	e.life.loops.Wait()
	if idle {
		e.pool.goroutines.Wait()
	}
	e.tel.close()
	err := e.lease.leaveLast(ctx)
	if err == nil {
		e.counts.send(ctx, min(callTimeout(&e.opt), e.opt.Lease/6))
	}
	return err
}
