package idempotency

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// Filter guesses which requests are repetitions. A request that it knows is looked up in the ledger before it is claimed there: to read
// that a request has succeeded costs a database less than a claim, which writes. What the ledger says then is the answer, and
// whatever else it says, the request is claimed as ever. So a filter is no authority: one that is down, empty, full, slow or wrong
// changes how long requests take, and nothing else. Package redisfilter has one on Redis. For people whose callers repeat much of what has
// succeeded.
//
// It may be called concurrently.
type Filter interface {
	// Seen notes a request, for window at most, and says whether it was noted before. An error is "no". The runner waits for it for
	// Options.FilterLimit and leaves it behind then, at most 256 calls at once, and asks nothing for 100 ms after a call that failed.
	Seen(ctx context.Context, key [ledger.KeySize]byte, window time.Duration) (bool, error)
}

// ReadFirst is a filter that says "seen" of each request: a repetition of a success costs a read, and any other request a read and a
// claim. It needs nothing, and never fails. A runner without a filter does the same while most of its requests are repetitions. New
// requests come to 0.8 to 1.0 of their rate with ReadFirst on PostgreSQL (bench/results.md), and to 0.6 on SQLite (package redisfilter has
// the measurement). For people whose callers repeat much among many new requests.
var ReadFirst Filter = readFirst{}

type readFirst struct{}

func (readFirst) Seen(context.Context, [ledger.KeySize]byte, time.Duration) (bool, error) {
	return true, nil
}

// Bounds of what is asked before a claim.
const (
	DefaultFilterLimit = 5 * time.Millisecond
	asksMax            = 256                    // calls of a filter at once, those left behind included
	restAfter          = 100 * time.Millisecond // after a call that failed
)

// What asking the filter came to.
const (
	sieveNew    = "new"    // the filter did not know the request
	sieveHit    = "hit"    // it did, and the ledger had its success
	sieveWrong  = "wrong"  // it did, and the ledger had none, or none of this body
	sieveFailed = "failed" // the filter, or the ledger that was to be read, did not answer, or not in time
	sieveRested = "rested" // it was not asked: it has just failed, or is asked too often at once
)

// repeats is how many of the last requests were repetitions of successes: those of long ago count little. The zero value has none.
// It may be used concurrently; what two calls note at once may count once.
type repeats struct{ share atomic.Int32 }

// Units of a share.
const (
	allRepeat  = 1 << 10
	repeatMemo = 16 // a request counts as much as what is a 16th of the share
)

// note notes a request.
func (r *repeats) note(repetition bool) {
	was, is := r.share.Load(), int32(0)
	if repetition {
		is = allRepeat
	}
	r.share.CompareAndSwap(was, was+(is-was)/repeatMemo)
}

// many says that most of the last requests were.
func (r *repeats) many() bool { return r.share.Load() > allRepeat/2 }

// sieve asks a filter, and the ledger about what it knows.
type sieve struct {
	repeats *repeats // nil: whatever they are, the filter is asked
	filter  Filter   // nil: all requests are looked up
	look    lookups
	wait    time.Duration // for the ledger, at most
	limit   time.Duration
	asks    chan struct{} // one for each call under way
	log     *zap.Logger
	began   time.Time
	rest    atomic.Int64 // since began: nothing is asked before
	down    atomic.Bool  // the last call failed
}

// newSieve is nil without a filter on a ledger that cannot be read so; on others it reads first while requests repeat much.
func newSieve(l ledger.Ledger, o *Options) (*sieve, error) {
	reader, ok := l.(ledger.SuccessReader)
	given := !engine.IsNil(o.Filter)
	switch {
	case !ok && given:
		return nil, fmt.Errorf("idempotency: Options.Filter: the ledger must be a ledger.SuccessReader, is a %T", l)
	case !ok:
		return nil, nil
	}
	s := &sieve{look: lookups{ledger: reader}, wait: min(lookLimit, o.Wait), limit: o.FilterLimit, asks: make(chan struct{}, asksMax), log: o.Logger, began: time.Now()}
	if !given {
		s.repeats = &repeats{}
	} else if o.Filter != ReadFirst {
		s.filter = o.Filter
	}
	return s, nil
}

// passes says that nothing is to be asked: there is no filter, and requests repeat little.
func (s *sieve) passes() bool { return s == nil || s.repeats != nil && !s.repeats.many() }

// note notes what became of a request.
func (s *sieve) note(repetition bool) {
	if s != nil && s.repeats != nil {
		s.repeats.note(repetition)
	}
}

// forget has requests claimed at once again: the ledger could not be read.
func (s *sieve) forget() {
	if s.repeats != nil {
		s.repeats.share.Store(0)
	}
}

// ended is the stored success of a request that the filter knows, as the ledger has it now; nil: it is to be claimed.
func (s *sieve) ended(ctx context.Context, key ledger.Key, body ledger.Fingerprint, window time.Duration) (*ledger.Outcome, string) {
	if s.filter != nil {
		if seen, why := s.ask(ctx, key.Sum(), window); !seen {
			return nil, why
		}
	}
	limited, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	switch known, err := s.look.read(limited, key); {
	case err != nil:
		if ctx.Err() == nil { // else it is the caller who has gone
			s.forget()
		}
		return nil, sieveFailed
	case !known.Of(body):
		return nil, sieveWrong
	default:
		return &ledger.Outcome{State: ledger.Succeeded, Result: known.Result}, sieveHit
	}
}

// ask asks the filter. Whatever goes wrong is "no"; why says how it went.
func (s *sieve) ask(ctx context.Context, key [ledger.KeySize]byte, window time.Duration) (seen bool, why string) {
	if time.Since(s.began) < time.Duration(s.rest.Load()) {
		return false, sieveRested
	}
	select {
	case s.asks <- struct{}{}:
	default:
		return false, sieveRested
	}
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	said := make(chan answer, 1)
	go func() {
		defer func() { <-s.asks }()
		said <- s.call(limited, key, window)
	}()
	var a answer
	select {
	case a = <-said:
	case <-limited.Done():
		a.err = limited.Err()
	}
	switch {
	case a.err != nil:
		if ctx.Err() == nil { // else it is the caller who has gone
			s.failed(a.err)
		}
		return false, sieveFailed
	case s.down.CompareAndSwap(true, false):
		s.log.Info("the filter answers again")
	}
	if a.seen {
		return true, sieveHit
	}
	return false, sieveNew
}

// failed has the filter rest. The first failure after an answer is told.
func (s *sieve) failed(err error) {
	s.rest.Store(int64(time.Since(s.began) + restAfter))
	if s.down.CompareAndSwap(false, true) {
		s.log.Warn("the filter does not answer: requests are claimed without it", zap.Error(err))
	}
}

type answer struct {
	seen bool
	err  error
}

// call is one call of the filter. One that panics has failed; one that ends its goroutine is not answered.
func (s *sieve) call(ctx context.Context, key [ledger.KeySize]byte, window time.Duration) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a.err = fmt.Errorf("idempotency: the filter panicked: %v", p)
		}
	}()
	a.seen, a.err = s.filter.Seen(ctx, key, window)
	return a
}
