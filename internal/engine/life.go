package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
)

// life is what an engine's goroutines live by.
type life struct {
	base      context.Context // values of Start's context, never cancelled by it
	starts    context.Context // ends when no handler may start any more
	endStarts context.CancelFunc
	gone      context.Context // ends when Close begins: nothing is repeated any more
	giveUp    context.CancelFunc
	loops     sync.WaitGroup // all goroutines but the pool's
}

// nap waits for d, less if the engine closes.
func (l *life) nap(d time.Duration) { Sleep(l.gone, d) }

// Sleep waits for d, less if ctx ends: then it returns false.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// rest counts the calls that the ledger did not take, one after the other, and naps after each, longer each time.
func (l *life) rest(failed int, ok bool) int {
	if ok {
		return 0
	}
	l.nap(outage(failed + 1))
	return failed + 1
}

// outage is the delay before the n-th repetition of a call to a ledger that does not answer.
func outage(n int) time.Duration {
	p := backoff.Policy{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	return p.Ceiling(n)/2 + p.Delay(n, rand.Float64())/2
}

// callTimeout bounds one call to the ledger.
func callTimeout(o *consumer.Options) time.Duration {
	return min(max(o.Lease/3, 250*time.Millisecond), maxCall)
}

const (
	callers = 2 // Claim calls, and Settle calls, under way at once: one flushes while the next gathers
	maxCall = 10 * time.Second
)
