package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
)

// maxAuditScopes is how many scopes a process remembers to have told the ledger of; what is forgotten is told again.
const maxAuditScopes = 10_000

// Audited is what a run of a request ended with.
type Audited struct {
	// Result is the stored answer. Of a failure for good it is empty, and Failed is the error's text.
	Result Result
	Failed string
	// Err says why the answer cannot be read: the cipher or the spill failed, or something else has stored it.
	Err error
	// State is ledger.Succeeded or ledger.Failed.
	State ledger.State
	// Attempts is how many attempts failed and counted.
	Attempts int
	// At is when the request was claimed first, Expiry when its window was over or will be.
	At, Expiry time.Time
	// Until is how long the answer is kept. Zero: the request is recognised still.
	Until time.Time
}

// Audit looks up what became of a request's runs, the latest first: one that is recognised still, and those whose window was over no
// longer than Options.Audit ago, at most [ledger.MaxPast] of them. q needs no Body. Nothing is found, and nil returned, of what was never
// run, failed without a stored error, or is kept no more. It is for operators: it reads, and [Runner.Do] answers nothing from it. The
// runner need not run. Errors: a [*KeyError], [errors.ErrUnsupported] for a ledger that is no [ledger.Operator], and the ledger's own.
func (r *Runner) Audit(ctx context.Context, q Request) ([]Audited, error) {
	key, err := q.key(r.opt.CheckKey)
	if err != nil {
		return nil, err
	}
	op, ok := r.ledger.(ledger.Operator)
	if !ok {
		return nil, fmt.Errorf("idempotency: Audit: %w by a %T, which is no ledger.Operator", errors.ErrUnsupported, r.ledger)
	}
	rec, err := op.Get(ctx, key)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, fmt.Errorf("idempotency: Audit: %w", err)
	}
	lives := rec.Past
	if rec.Result != nil {
		now := ledger.Past{State: rec.State, Attempts: rec.Attempts, At: rec.At, Expiry: rec.Expiry, Result: rec.Result}
		lives = append([]ledger.Past{now}, lives...)
	}
	var list []Audited
	for _, p := range lives {
		a := Audited{State: p.State, Attempts: p.Attempts, At: p.At, Expiry: p.Expiry, Until: p.Until}
		a.Result, a.Failed, a.Err = r.results.load(ctx, p.Result)
		list = append(list, a)
	}
	return list, nil
}

// audits tells the ledger how long answers are kept, once for each scope that it meets. No request waits for that: a row is there for its
// window at least, and the ledger is asked for nothing before the row goes.
type audits struct {
	ledger ledger.PastKeeper // nil: it keeps nothing
	keep   time.Duration
	log    *zap.Logger
	wake   chan struct{}

	known sync.Map // scopes that are told, or due
	mu    sync.Mutex
	count int      // of known
	due   []string // to be told
}

// newAudits returns what tells a ledger. One that cannot keep anything is an error only where the user has asked for it.
func newAudits(l ledger.Ledger, o *Options) (*audits, error) {
	keeper, ok := l.(ledger.PastKeeper)
	if !ok && o.Audit > 0 {
		return nil, fmt.Errorf("idempotency: Options.Audit: the ledger must be a ledger.PastKeeper, is a %T", l)
	}
	a := &audits{ledger: keeper, keep: o.Audit, log: o.Logger, wake: make(chan struct{}, 1)}
	if ok && a.keep == 0 && !o.NoAudit {
		a.keep = DefaultAudit
	}
	return a, nil
}

// met notes a scope.
func (a *audits) met(scope string) {
	if _, ok := a.known.Load(scope); ok || a.ledger == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == maxAuditScopes {
		return // the ledger does not answer: the next request of the scope notes it
	}
	if a.count == maxAuditScopes {
		a.known.Clear()
		a.count = 0
	}
	if _, again := a.known.LoadOrStore(scope, nil); again {
		return
	}
	a.count++
	a.due = append(a.due, scope)
	select {
	case a.wake <- struct{}{}:
	default: // it is awake
	}
}

// next is the scope that is to be told first; drop removes the one before it.
func (a *audits) next(drop bool) (scope string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if drop {
		a.due = a.due[1:]
	}
	if len(a.due) == 0 {
		return "", false
	}
	return a.due[0], true
}

const (
	// The pause after a scope that could not be told.
	minAuditPause = time.Second
	maxAuditPause = time.Minute
	// auditGrace is how long a runner that ends waits for the ledger to hear of the scopes that are left.
	auditGrace = 2 * time.Second
)

// begin tells the ledger of scopes until end is called, which tells of those that are left: a process may end after its one request.
func (a *audits) begin(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		a.run(ctx, stop)
	}()
	return func() {
		close(stop)
		grace := time.AfterFunc(auditGrace, cancel)
		<-ended
		grace.Stop()
		cancel()
	}
}

func (a *audits) run(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-a.wake:
			a.tell(ctx, stop)
		case <-stop:
			a.tell(ctx, stop)
			if scope, ok := a.next(false); ok {
				a.log.Warn("answers are not kept for audits: the ledger could not be told in time", zap.String("scope", scope))
			}
			return
		}
	}
}

// tell tells the ledger of what is due. What fails is tried again until stop, and logged once.
func (a *audits) tell(ctx context.Context, stop <-chan struct{}) {
	pause := time.Duration(0)
	for scope, ok := a.next(false); ok; {
		err := a.ledger.KeepPast(ctx, scope, a.keep)
		if err == nil {
			pause = 0
			scope, ok = a.next(true)
			continue
		}
		if pause == 0 && ctx.Err() == nil {
			a.log.Warn("answers are not kept for audits yet; it is tried again", zap.String("scope", scope), zap.Error(err))
		}
		pause = min(max(2*pause, minAuditPause), maxAuditPause)
		select {
		case <-time.After(pause):
		case <-stop:
			return
		}
	}
}
