package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger/memory"
)

// In a pause nothing begins: new requests are told at once, repetitions too, those that wait do so for as long as they may, or until it ends;
// what runs comes to its end.
func TestPause(t *testing.T) {
	const patience = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{Concurrency: 1, Wait: patience})
		release := make(chan struct{})
		blocks := func(context.Context) (idempotency.Result, error) {
			<-release
			return idempotency.Result{Body: []byte("paid")}, nil
		}
		f, runs := answers("paid", nil)
		runner, early, late := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		do := func(key string, f idempotency.Func, to chan<- error) {
			go func() {
				_, err := r.Do(t.Context(), request(key), f)
				to <- err
			}()
			synctest.Wait()
		}
		do("runs", blocks, runner)
		do("early", f, early)
		time.Sleep(patience / 2)
		do("late", f, late)

		r.Pause()
		r.Pause()
		close(release)
		if err := <-runner; err != nil {
			t.Errorf("what ran: %v", err)
		}
		began := time.Now()
		for _, key := range []string{"new", "runs"} {
			_, err := r.Do(t.Context(), request(key), never(t))
			if !errors.Is(err, idempotency.ErrPaused) || errors.Is(err, idempotency.ErrUnavailable) || time.Since(began) != 0 {
				t.Errorf("a request in a pause: %v after %s", err, time.Since(began))
			}
		}
		if err := <-early; !errors.Is(err, idempotency.ErrPaused) || time.Since(began) != patience/2 {
			t.Errorf("the pause outlasts it: %v after %s", err, time.Since(began))
		}
		if runs.Load() != 0 {
			t.Errorf("%d functions have run in the pause", runs.Load())
		}
		r.Resume()
		if err := <-late; err != nil || runs.Load() != 1 {
			t.Errorf("the pause ends before: %v, %d have run", err, runs.Load())
		}
		if _, err := r.Do(t.Context(), request("new"), f); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
