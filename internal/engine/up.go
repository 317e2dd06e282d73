package engine

import (
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
	"go.uber.org/zap"
)

// Whether work may start, and how calls are repeated that the ledger does not answer.

// mayStart says whether handlers may start: fail closed.
func (e *Engine) mayStart() bool { return e.mayWork() && !e.brake.breaker.open }

// mayWork says whether it is only for the breaker whether handlers may start.
func (e *Engine) mayWork() bool {
	return e.sess != nil && e.up && !e.paused && !e.draining && !e.closed && !e.purse.budget.stops
}

// note keeps whether the ledger is reachable. A nil error says that it answered.
func (e *Engine) note(err error) {
	e.mu.Lock()
	was := e.up
	e.up = err == nil && e.sess != nil
	if err != nil {
		e.lastErr = err
	}
	if e.up && !was {
		e.improved()
	}
	if !e.up {
		e.takeBackAll()
	}
	if err != nil {
		select {
		case e.probe <- struct{}{}:
		default:
		}
	}
	if was && !e.up {
		e.log.Warn("ledger unreachable: nothing starts until it answers", zap.Error(err))
	}
	e.unlock()
}

// nap waits for d, less if the engine closes.
func (e *Engine) nap(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.gone.Done():
	}
}

// rest counts the calls that the ledger did not take, one after the other, and naps after each, longer each time.
func (e *Engine) rest(failed int, ok bool) int {
	if ok {
		return 0
	}
	e.nap(outage(failed + 1))
	return failed + 1
}

// outage is the delay before the n-th repetition of a call to a ledger that does not answer.
func outage(n int) time.Duration {
	p := backoff.Policy{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	return p.Ceiling(n)/2 + p.Delay(n, rand.Float64())/2
}

// callTimeout bounds one call to the ledger.
func (e *Engine) callTimeout() time.Duration {
	return min(max(e.opt.Lease/3, 250*time.Millisecond), maxCall)
}
