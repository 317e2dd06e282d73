package consumer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/slots"
)

// Worker consumes one source: a queue, or the topics of one group.
type Worker interface {
	// Run consumes until ctx is cancelled, then drains, and returns nil after a clean drain. It returns at once with an
	// error on what cannot heal by itself. A worker runs once; a second Run is an error.
	Run(ctx context.Context) error
	// Health may be called at any time, before Run too.
	Health() Health
	// Pause stops polling and the start of handlers; messages in hand stay in hand. Resume goes on. Both may be called
	// at any time and any number of times.
	Pause()
	Resume()
}

// Run runs workers together until ctx is cancelled or one of them fails; then all drain, and it returns what failed
// (errors.Join), nil after a clean drain of all.
func Run(ctx context.Context, workers ...Worker) error {
	if len(workers) == 0 {
		return errors.New("consumer: Run: must be given at least 1 worker, is given 0")
	}
	if i := slices.IndexFunc(workers, func(w Worker) bool { return isNil(w) }); i >= 0 {
		return fmt.Errorf("consumer: Run: worker %d of %d is nil", i+1, len(workers))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			defer cancel() // one that stops by itself stops the others: a process half alive helps nobody
			errs[i] = w.Run(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// isNil is true also of a nil pointer, which a constructor returns beside an error that nobody looked at, and of a nil function.
func isNil(x any) bool {
	v := reflect.ValueOf(x)
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}

// Health is what probes ask for.
type Health struct {
	// Alive is false once a handler has ignored its cancelled context for longer than the drain: only a restart helps.
	Alive bool `json:"alive"`
	// Ready says that the worker has joined the ledger, reaches it, and polls its broker, or would if no operator had paused it: a
	// restart is of no help then.
	Ready bool `json:"ready"`
	// Draining says that Run's context is done: what runs comes to its end, and nothing new begins. Ready is false then.
	Draining bool `json:"draining,omitempty"`
	// Concurrency is how many handlers may run at once: Options.Concurrency, or what MinConcurrency makes of it. 0 before Run.
	Concurrency int `json:"concurrency,omitempty"`
	// Stalled lists what takes longer than it should, longest first, at most 100 entries.
	Stalled []Stall `json:"stalled,omitempty"`
	// Warnings are about settings that are allowed but unwise, and about what people should look at while work goes on, such
	// as messages that are larger than the ledger archives.
	Warnings []string `json:"warnings,omitempty"`
	// LastError is why the worker is not ready, if it knows.
	LastError string `json:"last_error,omitempty"`
}

// Stall is one message, partition or group that does not get on.
type Stall struct {
	What   string    `json:"what"`   // the message's id, or the topic and partition
	Reason string    `json:"reason"` // one of StallReasons
	Why    string    `json:"why"`    // the same in words, such as "handler runs", "span limit"
	Since  time.Time `json:"since"`  // the worker's clock
	Lane   string    `json:"behind"` // the group, key or partition that waits behind it; empty: none
}

// What Stall.Reason may be.
const (
	StallPaused  = "paused"  // the worker is paused by an operator (ledger.Board, ackledger pause): it stays ready
	StallBreaker = "breaker" // the worker is paused: most messages fail for good (Options.Breaker)
	StallBudget  = "budget"  // the worker is paused: too much is archived (Options.ArchiveBudget)
	StallSlow    = "slow"    // a handler has run for longer than Options.SlowAfter
	StallDeaf    = "deaf"    // a handler ignores its cancelled context
	StallRefused = "refused" // the ledger or the cipher refuses a settlement, which is repeated
	StallSpan    = "span"    // a Kafka partition is not read: its oldest unfinished record is kafka.Config.Span behind
	StallRoom    = "room"    // a Kafka partition is not read: it leaves the room to others, or there is none
)

// StallReasons are all of them.
func StallReasons() []string {
	return []string{StallPaused, StallBreaker, StallBudget, StallSlow, StallDeaf, StallRefused, StallSpan, StallRoom}
}

// Limiter limits how many handlers run at once across workers. [NewLimiter] makes one for all that share it, [Slots.Limiter] one with a
// weight and a level. It is safe for concurrent use.
type Limiter struct {
	n      int
	wrong  string // what is wrong with it; workers refuse it
	slots  chan struct{}
	shared *Slots // instead of slots: share is the worker's
	share  *slots.Share
}

// NewLimiter returns a limiter for n handlers, at least 1. With less it returns one that workers refuse by name.
func NewLimiter(n int) *Limiter {
	if n < 1 {
		return &Limiter{wrong: unmade}
	}
	return &Limiter{n: n, slots: make(chan struct{}, n)}
}

const unmade = "consumer: Options.Limiter: must be made by NewLimiter for at least 1 handler, is for 0 or less: it would start none"

// invalid says what is wrong with a limiter; nil: nothing.
func (l *Limiter) invalid() error {
	switch {
	case l == nil || l.slots != nil || l.shared != nil:
		return nil
	case l.wrong == "":
		return errors.New(unmade)
	}
	return errors.New(l.wrong)
}

// Acquire waits for a slot until ctx is done; a nil limiter has no limit. Workers call it.
func (l *Limiter) Acquire(ctx context.Context) error {
	switch {
	case l == nil:
		return ctx.Err()
	case l.shared != nil:
		return l.shared.acquire(ctx, l.share)
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release gives a slot back. Workers call it once for every Acquire that returned nil.
func (l *Limiter) Release() {
	switch {
	case l == nil:
	case l.shared != nil:
		l.shared.release()
	default:
		<-l.slots
	}
}
