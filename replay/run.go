package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

var (
	// ErrStopped says that a run ended before the end of what was there: cancelled, or after too many errors. Nothing is
	// between two places; the same call goes on with the rest. The report is valid.
	ErrStopped = errors.New("replay: stopped before the end; run it again to go on")
	// ErrElsewhere says that a letter is of another source than the target sends to.
	ErrElsewhere = errors.New("it came from another source than the target's")

	errLimit = errors.New("as many as asked for are replayed")
)

const (
	maxBytes  = 64 << 20         // of letters in hand
	finishing = 15 * time.Second // for what is under way when the run is cancelled
	lull      = 5 * time.Millisecond
)

// Run replays what src has now to dst, under the rules of the package, and reports. op is the ledger of the workers that
// failed. It blocks.
//
// The report is valid beside any error. An error for which errors.Is([ErrStopped]) holds says that the run was stopped: by
// ctx, between two messages (what is under way is finished, for at most some seconds), or by Config.StopAfter. Any other
// says that it could not begin, with nothing changed, or that the ledger or the source failed on the way; then too the same
// call goes on with the rest. What was left, refused or mismatched is no error: see [Report.Complete].
//
// It does not begin with a source that a worker of op consumes: its messages are live.
//
// The audit row of a message is written before the message is sent, so that none is missing; a send that then fails leaves
// one too many.
//
// Memory is bounded, whatever the number of dead letters: some hundred letters for each of Config.Concurrency, and 64 MiB
// of bodies or one letter.
func Run(ctx context.Context, op ledger.Operator, src Source, dst Target, c Config) (Report, error) {
	switch {
	case op == nil:
		return Report{}, errors.New("replay: Run: the ledger must not be nil")
	case src == nil || dst == nil:
		return Report{}, errors.New("replay: Run: source and target must not be nil")
	}
	c, err := c.withDefaults()
	if err != nil {
		return Report{}, err
	}
	r := &runner{c: c, op: op, src: src, dst: dst, budget: newBudget(maxBytes), blocked: map[line]bool{}, total: -1}
	r.report = Report{Source: src.String(), Target: dst.String(), DryRun: c.DryRun, Began: time.Now(), Reasons: map[Reason]int64{}, Targets: map[string]int64{}}
	err = r.begin(ctx)
	if err == nil {
		err = r.work(ctx)
		if gone := dst.End(context.WithoutCancel(ctx)); gone != nil {
			if errors.Is(err, errLimit) {
				err = nil
			}
			err = errors.Join(err, gone)
		}
	}
	return r.finish(ctx, err)
}

// runner is one run.
type runner struct {
	c      Config
	op     ledger.Operator
	src    Source
	dst    Target
	scopes map[string]bool
	all    bool   // the filter selects every letter
	to     string // what the audit says of a send
	most   int    // letters of one batch
	rate   *rate.Limiter
	budget *budget
	stop   context.CancelCauseFunc
	total  int64
	seen   atomic.Int64
	unsent atomic.Bool // letters that were to be sent were not, because the run was cancelled

	mu       sync.Mutex
	report   Report
	reserved int64         // of Config.limit
	errors   int           // of Config.StopAfter
	broken   error         // the first error of a batch
	blocked  map[line]bool // behind an error or a refusal
}

// begin asks source, target and ledger whether the run makes sense. Nothing is changed if it does not.
func (r *runner) begin(ctx context.Context) error {
	address, err := r.src.Address(ctx)
	if err != nil {
		return err
	}
	scopes, err := r.op.Scopes(ctx)
	if err != nil {
		return fmt.Errorf("replay: ask the ledger for its scopes: %w", err)
	}
	r.scopes = make(map[string]bool, len(scopes))
	for _, s := range scopes {
		r.scopes[s] = true
	}
	if err := refuseLive(address, scopes); err != nil {
		return err
	}
	if f := r.c.Filter.Scope; f != "" && !r.scopes[f] {
		return fmt.Errorf("replay: Config.Filter.Scope: the ledger has no scope %q", f)
	}
	if r.total, err = r.src.Count(ctx, &r.c.Filter); err != nil {
		return err
	}
	if err := r.dst.Begin(ctx, Begin{Operator: r.op, Source: address, DryRun: r.c.DryRun, Concurrency: r.c.Concurrency}); err != nil {
		return err
	}
	r.all, r.to = selectsAll(r.c.Filter), detail("to "+r.dst.String())
	r.most = min(max(r.dst.Most(), 1), maxBatch)
	if r.c.FreshKeys || r.c.Mend {
		r.most = min(r.most, maxRenewed)
	}
	if r.c.Rate > 0 {
		r.most = min(r.most, max(1, int(r.c.Rate/4)))
		r.rate = rate.NewLimiter(rate.Limit(r.c.Rate), r.most)
	}
	return nil
}

// refuseLive refuses a source that workers of the ledger consume: its messages are no dead letters, and each look at a queue
// counts as a receive, of which SQS allows only so many.
func refuseLive(address string, scopes []string) error {
	for _, s := range scopes {
		if source, consumer, ok := ParseScope(s); ok && source == address && address != "" {
			return fmt.Errorf("replay: the source %s is what consumer %q of this ledger consumes, so its messages are live: name the "+
				"dead-letter queue or topic, or the ledger's archive (a dead-letter queue or topic that a worker consumes with "+
				"this ledger is refused, too)", address, consumer)
		}
	}
	return nil
}

const (
	maxBatch   = 500 // letters that are decided upon together, at most
	maxRenewed = 10  // of those that are renewed: a crash that comes before they are sent lets them be renewed once more
)

// work reads letters and hands them to the lanes until there are no more, or the run is stopped.
func (r *runner) work(ctx context.Context) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.stop = stop
	lanes := make([]chan *Letter, r.c.Concurrency)
	var workers, watch sync.WaitGroup
	for i := range lanes {
		lanes[i] = make(chan *Letter, r.most)
		workers.Go(func() { r.lane(ctx, reading, lanes[i]) })
	}
	over := make(chan struct{})
	watch.Go(func() { r.watch(over) })
	err := r.read(reading, lanes)
	for _, lane := range lanes {
		close(lane)
	}
	workers.Wait()
	close(over)
	watch.Wait()
	cause := context.Cause(reading)
	switch {
	case cause == nil:
		return err
	case errors.Is(cause, errLimit) && r.broken != nil: // the last that were allowed
		return r.broken
	}
	return cause
}

// broke ends the run with an error.
func (r *runner) broke(err error) {
	r.mu.Lock()
	if r.broken == nil {
		r.broken = err
	}
	r.mu.Unlock()
	r.stop(err)
}

// read hands out letters: those of one lane to one goroutine, in their order, and those of none in batches.
func (r *runner) read(ctx context.Context, lanes []chan *Letter) error {
	next, given, seed := 0, 0, maphash.MakeSeed()
	filter := r.c.Filter
	for l, err := range r.src.Letters(ctx, &filter) {
		if err != nil {
			return err
		}
		r.seen.Add(1)
		l.lane, l.size = laneOf(&l.Message), sizeOf(&l.Message)
		to := next
		if l.lane != "" {
			to = int(maphash.String(seed, l.lane) % uint64(len(lanes)))
		} else if given++; given == r.most {
			next, given = (next+1)%len(lanes), 0
		}
		if !r.budget.take(ctx, l.size) {
			return context.Cause(ctx)
		}
		select {
		case lanes[to] <- l:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// lane replays the letters of one goroutine, batch by batch, until there are no more or the run is stopped.
func (r *runner) lane(ctx, reading context.Context, in <-chan *Letter) {
	for batch := r.gather(in); len(batch) > 0; batch = r.gather(in) {
		size := 0
		for _, l := range batch {
			size += l.size
		}
		if reading.Err() == nil {
			if err := r.batch(ctx, batch); err != nil {
				r.broke(err)
			}
		}
		r.budget.give(size)
	}
}

// gather takes a batch: what is there, or comes at once.
func (r *runner) gather(in <-chan *Letter) (batch []*Letter) {
	first, ok := <-in
	if !ok {
		return nil
	}
	batch = append(batch, first)
	quiet := time.NewTimer(lull)
	defer quiet.Stop()
	for len(batch) < r.most {
		select {
		case l, ok := <-in:
			if !ok {
				return batch
			}
			batch = append(batch, l)
		case <-quiet.C:
			return batch
		}
	}
	return batch
}

// finish makes the report whole, and says how to go on.
func (r *runner) finish(ctx context.Context, err error) (Report, error) {
	r.report.Ended = time.Now()
	r.report.Warnings = append(r.report.Warnings, r.src.Warnings()...)
	if dst, ok := r.dst.(Warner); ok {
		r.report.Warnings = append(r.report.Warnings, dst.Warnings()...)
	}
	if src, ok := r.src.(Unreader); ok {
		r.report.Unread = src.Unread()
	}
	switch {
	case err == nil:
	case errors.Is(err, errLimit) && !r.unsent.Load():
		r.report.Stopped, err = errLimit.Error(), nil
	case ctx.Err() != nil && (r.unsent.Load() || errors.Is(err, context.Cause(ctx))):
		r.report.Stopped = "cancelled; run it again to go on"
		if errors.Is(err, errLimit) { // of what it allowed, something was not sent
			err = context.Cause(ctx)
		}
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	default:
		r.report.Stopped = err.Error()
	}
	if r.c.Progress != nil {
		r.c.Progress(r.progress(nil, time.Now()))
	}
	if err != nil {
		r.c.Logger.Warn("replay stopped", zap.Error(err))
	}
	return r.report, err
}
