package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// Runner does requests once. Build it with [New], and have [Runner.Run] run beside those who call [Runner.Do]. All methods but Run may
// be called concurrently.
type Runner struct {
	opt     Options
	worker  consumer.Options
	ledger  ledger.Ledger
	eng     *engine.Engine
	results results
	began   atomic.Bool
	flights flights
	sieve   *sieve // nil: there is no filter
	audits  *audits
	waiting atomic.Int64 // calls of Do

	pausing sync.Mutex // of what pauses and resumes
	paused  atomic.Bool

	telemetry telemetry
}

var _ consumer.Worker = (*Runner)(nil)

// New builds a runner. Nothing connects before [Runner.Run]. Runners of one ledger share their requests, in whatever processes.
func New(l ledger.Ledger, o Options) (*Runner, error) {
	if engine.IsNil(l) {
		return nil, errors.New("idempotency: New: the ledger must not be nil")
	}
	opt, worker, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if engine.IsNil(opt.Spill) {
		opt.Spill = nil
	}
	r := &Runner{opt: opt, worker: worker, ledger: l, flights: newFlights(), results: results{
		limit: l.Limits().Result, cipher: opt.Cipher, spill: opt.Spill, most: opt.SpillLimit, log: opt.Logger,
	}}
	if r.sieve, err = newSieve(l, &opt); err != nil {
		return nil, err
	}
	if r.audits, err = newAudits(l, &opt); err != nil {
		return nil, err
	}
	if r.telemetry, err = newTelemetry(&worker, opt.Name); err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	r.eng, err = engine.New(engine.Config{
		Options: worker, Ledger: l, Handler: consumer.HandlerFunc(r.handle), Sink: r, System: "idempotency", Source: opt.Name,
		HoldMax: -1, AskMax: askMax, Heard: r.heard, Told: true,
	})
	if err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	return r, nil
}

// askMax is how often the ledger is asked at least whether a request that runs elsewhere is done.
const askMax = 500 * time.Millisecond

// closeLimit bounds what ends a runner, after the drain.
const closeLimit = 10 * time.Second

// Run joins the ledger and keeps the lease until ctx is cancelled. Then it takes no request any more, waits for those that run
// (Options.Drain), leaves the ledger, tells it for up to 2 s what is left to say of Options.Audit, and returns nil, or an error that
// names what still ran. It returns early on what cannot heal. A runner runs once. It is a [consumer.Worker], so [consumer.Run] runs it beside others.
func (r *Runner) Run(ctx context.Context) error {
	if !r.began.CompareAndSwap(false, true) {
		return errors.New("idempotency: Run: a runner runs once")
	}
	defer r.audits.begin(context.WithoutCancel(ctx))()
	started := r.eng.Start(consumer.WithStepCipher(ctx, r.opt.Cipher))
	if started == nil {
		<-ctx.Done()
	}
	base := context.WithoutCancel(ctx)
	var drained error
	if started == nil {
		drained = r.eng.Drain(base)
	}
	last, cancel := context.WithTimeout(base, closeLimit)
	defer cancel()
	closed := r.eng.Close(last)
	if ctx.Err() != nil && errors.Is(started, context.Cause(ctx)) {
		started = nil // it never joined, so there was nothing to drain
	}
	if err := errors.Join(started, drained, closed); err != nil {
		return fmt.Errorf("idempotency: %w", err)
	}
	return nil
}

// MaxResult is how many bytes a stored result may have, its status, headers and so on included: the ledger's limit, or
// Options.SpillLimit where that is larger and there is a Spill.
func (r *Runner) MaxResult() int { return r.results.max() }

// Health implements [consumer.Worker].
func (r *Runner) Health() consumer.Health { return r.eng.Health() }

// Pause implements [consumer.Worker]: no function begins. New requests get [ErrPaused] at once, so that whoever stands in front asks another
// process; those that wait go on waiting, and get it once they have waited for Options.Wait. What runs comes to its end.
func (r *Runner) Pause() {
	r.pausing.Lock()
	defer r.pausing.Unlock()
	r.paused.Store(true)
	r.eng.Pause()
}

// Resume implements [consumer.Worker]: it ends a pause.
func (r *Runner) Resume() {
	r.pausing.Lock()
	defer r.pausing.Unlock()
	r.eng.Resume()
	r.paused.Store(false)
}
