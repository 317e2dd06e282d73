package idempotency

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// lookups read successes in batches: while one call is under way, the next one's keys come together.
type lookups struct {
	ledger ledger.SuccessReader

	mu      sync.Mutex
	waiting []*lookup
	reading bool
}

// lookup is one key that is to be read. What was read may be read when done is closed.
type lookup struct {
	ctx  context.Context // of who waits
	key  ledger.Key
	done chan struct{}
	ledger.Success
	err error
}

// Bounds of what is read.
const (
	lookLimit  = time.Second // for one call, and for one key's wait
	lookupsMax = 1000        // keys that wait
)

var errLookups = errors.New("idempotency: too many requests are looked up")

// read returns what is known of a key.
func (l *lookups) read(ctx context.Context, key ledger.Key) (ledger.Success, error) {
	x := &lookup{ctx: ctx, key: key, done: make(chan struct{})}
	l.mu.Lock()
	if len(l.waiting) >= lookupsMax {
		l.mu.Unlock()
		return ledger.Success{}, errLookups
	}
	l.waiting = append(l.waiting, x)
	if !l.reading {
		l.reading = true
		go l.serve()
	}
	l.mu.Unlock()
	select {
	case <-x.done:
		return x.Success, x.err
	case <-ctx.Done():
		return ledger.Success{}, context.Cause(ctx)
	}
}

// serve reads until nobody waits. What is waited for no more is not read.
func (l *lookups) serve() {
	for {
		l.mu.Lock()
		l.waiting = slices.DeleteFunc(l.waiting, func(x *lookup) bool { return x.ctx.Err() != nil })
		batch := l.waiting[:min(len(l.waiting), ledger.MaxSuccesses)]
		l.waiting = l.waiting[len(batch):]
		l.reading = len(batch) > 0
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		l.call(batch)
	}
}

func (l *lookups) call(batch []*lookup) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	keys := make([]ledger.Key, len(batch))
	for i, x := range batch {
		keys[i] = x.key
	}
	all, err := l.ledger.Successes(ctx, keys)
	for i, x := range batch {
		if x.err = err; err == nil {
			x.Success = all[i]
		}
		close(x.done)
	}
}
