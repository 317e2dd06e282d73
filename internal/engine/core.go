package engine

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

const (
	claimBatch  = 2000 // entries in one Claim call at most
	settleBatch = 2000 // settlements in one Settle call at most
	settleBytes = 8 << 20
	callers     = 2 // Claim calls, and Settle calls, under way at once: one flushes while the next gathers
	maxCall     = 10 * time.Second
)

// Engine is the only implementation of [API].
type Engine struct {
	cfg    Config
	opt    consumer.Options
	policy policy
	rate   *rate.Limiter
	turn   *consumer.Limiter // to wait for the rate
	// limited says that handlers start one at a time, as Limiter, Rate or Park allow.
	limited bool
	batch   consumer.BatchHandler // nil: the handler takes single messages
	size    int                   // of a batch at most; 1 without
	born    time.Time             // what chunks count from
	tel     *telemetry
	log     *zap.Logger

	base      context.Context // values of Start's context, never cancelled by it
	starts    context.Context // ends when no handler may start any more
	endStarts context.CancelFunc
	gone      context.Context // ends when Close begins: nothing is repeated any more
	giveUp    context.CancelFunc
	loops     sync.WaitGroup // all goroutines but the pool's
	pool      sync.WaitGroup
	kick      chan struct{} // the earliest due time changed
	probe     chan struct{} // a call to the ledger failed: beat soon, to learn whether it is back

	forgedSaid atomic.Int64 // when a refused stamp was warned of last, in milliseconds since 1970

	mu            sync.Mutex
	s             *sched
	all           *Item // list of all items in hand
	settleQ       fifo[settlement]
	stretchesDone fifo[*Stretch] // to be settled
	doneRecords   int            // of them
	doneRound     uint64         // calls of takeDone
	claiming      int            // items in claims under way
	settlingNow   int            // settlements in calls under way
	out           []Finished
	telling       map[*telling]struct{} // calls of the sink under way
	outs          [][]Finished          // arrays for out, to use again
	chunks        map[*chunk]struct{}   // what goroutines of the pool have taken
	scratch       []*Item               // of takeReady
	divisible     int                   // chunks of which others may take a part
	pieces        int                   // chunks of stretches that run together
	idle          int                   // goroutines of the pool that wait for work
	woken         int                   // of these, those that were told of some
	cost          time.Duration         // of one call of the handler, of late
	ranged        bool                  // the newest item may lie in a range of the ledger
	shy           time.Time             // no stretches until then
	turns         turns                 // of items and stretches
	sess          *session              // nil: not joined
	unleft        *session              // joined, and not known to be left; only keep's goroutine, and Close after it
	up            bool                  // the ledger answered last time
	lastErr       error
	unswept       error // why the ledger is not maintained by this worker
	paused        bool
	draining      bool
	closed        bool
	keeps         bool      // a suspect that may be ours keeps its place until that is known
	last          *drop     // of Drain, until no handler runs and nothing is owed
	armed         time.Time // what the timer waits for
	changed       chan struct{}
	pace          pace
	toClaim       *sync.Cond
	toRun         *sync.Cond
	toSettle      *sync.Cond
	toSolo        *sync.Cond
	toRescue      *sync.Cond
	toPublish     *sync.Cond
	toProbe       *sync.Cond
	letters       letters
	refusals      refusals
	brake         brake
	purse         purse

	known  deliveries
	firsts firsts

	unwise []string // what Options.Warnings says
}

var _ API = (*Engine)(nil)

// New builds an engine. It refuses a configuration without ledger, handler or sink.
func New(cfg Config) (*Engine, error) {
	if IsNil(cfg.Ledger) || IsNil(cfg.Handler) || IsNil(cfg.Sink) {
		return nil, errors.New("engine: ledger, handler and sink must not be nil")
	}
	o := cfg.Options
	e := &Engine{
		cfg: cfg, opt: o, s: newSched(), chunks: map[*chunk]struct{}{}, telling: map[*telling]struct{}{}, born: time.Now(),
		kick: make(chan struct{}, 1), probe: make(chan struct{}, 1), limited: o.Limiter != nil || o.Rate > 0 || o.Park,
		policy: policy{attempts: o.Attempts, backoff: backoff.Policy{Base: o.BackoffBase, Max: o.BackoffMax}},
		log:    o.Logger.With(zap.String("system", cfg.System), zap.String("source", cfg.Source), zap.String("consumer", o.Name)),
	}
	e.size = 1
	if e.batch, _ = cfg.Handler.(consumer.BatchHandler); e.batch != nil {
		e.size = min(max(e.batch.BatchSize(), 1), consumer.MaxBatch)
	}
	if e.cfg.Suspects == nil {
		e.cfg.Suspects = oneSuspect
	}
	if o.Rate > 0 {
		e.rate = rate.NewLimiter(rate.Limit(o.Rate), int(max(1, min(o.Rate/10, math.MaxInt32))))
		e.turn = consumer.NewLimiter(1)
	}
	e.gone, e.giveUp = context.WithCancel(context.Background())
	e.starts, e.endStarts = context.WithCancel(e.gone)
	e.toClaim, e.toRun = sync.NewCond(&e.mu), sync.NewCond(&e.mu)
	e.toSettle, e.toSolo = sync.NewCond(&e.mu), sync.NewCond(&e.mu)
	e.toRescue, e.toPublish = sync.NewCond(&e.mu), sync.NewCond(&e.mu)
	e.toProbe = sync.NewCond(&e.mu)
	e.s.bytes.Limit = o.MaxHeldBytes
	e.newLetters()
	e.newBrake()
	if err := e.newPurse(); err != nil {
		return nil, err
	}
	e.refusals.kept = map[*Item]*kept{}
	e.known.counts = map[string]ledger.Deliveries{}
	e.known.to, _ = cfg.Ledger.(ledger.DeliveryCounter)
	conns := 0
	if p, ok := cfg.Ledger.(ledger.Pooled); ok {
		conns = p.TxConns()
	}
	e.unwise = o.Warnings(conns)
	for _, text := range e.unwise {
		e.log.Warn(text)
	}
	tel, err := newTelemetry(e) // the last: metrics may be collected from now on
	if err != nil {
		return nil, err
	}
	e.tel = tel
	return e, nil
}

// Start implements API.
func (e *Engine) Start(ctx context.Context) error {
	e.base = context.WithoutCancel(ctx)
	sess, err := e.firstJoin(ctx)
	if err != nil {
		return err
	}
	e.loops.Go(func() { e.keep(sess) })
	e.loops.Go(e.timer)
	e.loops.Go(e.soloLoop)
	e.loops.Go(e.rescuer)
	e.loops.Go(e.probeLoop)
	if m, ok := e.cfg.Ledger.(ledger.Maintainer); ok && !e.opt.NoMaintenance {
		e.loops.Go(func() { e.maintain(m) })
	}
	if m, ok := e.cfg.Ledger.(ledger.ArchiveMeter); ok && e.opt.ArchiveBudget > 0 {
		e.loops.Go(func() { e.weighLoop(m) })
	}
	for range callers {
		e.loops.Go(e.claimLoop)
		e.loops.Go(e.settleLoop)
	}
	for range e.opt.Concurrency {
		e.pool.Go(e.poolLoop)
	}
	for i := 0; i < publishers && e.forwards(); i++ {
		e.loops.Go(e.publishLoop)
	}
	return nil
}

// Offer implements API.
func (e *Engine) Offer(items []*Item) {
	now := time.Now()
	e.refuse(items, now)
	e.mu.Lock()
	for _, it := range items {
		it.overdue = !it.Deadline.IsZero() && !now.Before(it.Deadline)
		e.measure(it)
		e.makeWay(it)
		e.enlist(it)
		e.ranged = it.Ranged
		e.meets(it.Key.Scope)
		e.s.add(it)
		switch {
		case it.Skip:
			e.tel.skipped(1)
			e.finish(it, Verdict{Ack: true})
		case e.draining:
			e.finish(it, Verdict{})
		}
	}
	e.unlock()
}

// enlist puts an item in the list of all.
func (e *Engine) enlist(it *Item) {
	it.allNext = e.all
	if e.all != nil {
		e.all.allPrev = it
	}
	e.all = it
}

// unlock ends a critical section: it turns what must not stay ours into releases, wakes whoever has work now, and tells
// the sink outside of the lock.
func (e *Engine) unlock() {
	if e.brake.tripped {
		e.brake.tripped = false
		e.releaseClaimed()
	}
	for _, it := range e.s.toRelease {
		if it.phase == claimed {
			e.release(it)
		}
	}
	e.s.toRelease = e.s.toRelease[:0]
	for _, it := range e.s.toSettle {
		r := it.extra()
		result := r.early.result
		r.early = nil
		e.succeed(it, result)
	}
	e.s.toSettle = e.s.toSettle[:0]
	e.countFirsts()
	e.noteIdle()
	e.wakeLoops()
	out := e.out
	e.out = nil
	if n := len(e.outs); n > 0 && len(out) > 0 {
		e.out, e.outs = e.outs[n-1], e.outs[:n-1]
	}
	if len(out) > 0 || e.s.eased {
		e.improved()
		e.s.eased = false
	}
	if len(out) == 0 {
		e.mu.Unlock()
		return
	}
	t := &telling{out: out}
	e.telling[t] = struct{}{}
	e.mu.Unlock()
	e.cfg.Sink.Finish(out)
	e.mu.Lock()
	delete(e.telling, t)
	t.done()
	if clear(out); cap(out) <= 4*claimBatch && len(e.outs) < 2*callers {
		e.outs = append(e.outs, out[:0])
	}
	e.mu.Unlock()
}

func (e *Engine) wakeLoops() {
	e.wakePool()
	if e.s.claimQ.len()+e.s.doubtQ.len()+e.s.stretchQ.len() > 0 {
		e.toClaim.Signal()
	}
	if e.s.suspectQ.len() > 0 || e.keeps {
		e.toSolo.Signal()
	}
	if e.brake.breaker.open {
		e.toProbe.Signal()
	}
	if e.settleQ.len()+e.stretchesDone.len() > 0 {
		e.toSettle.Signal()
	}
	if e.letters.waiting.len() > 0 {
		e.toPublish.Signal()
	}
	if len(e.s.waits) > 0 && (e.armed.IsZero() || e.s.waits[0].due.Before(e.armed)) {
		select {
		case e.kick <- struct{}{}:
		default:
		}
	}
}

// wakePool wakes goroutines of the pool for what is ready: one, which wakes the next, if handlers are fast.
func (e *Engine) wakePool() {
	asleep := e.idle - e.woken
	ready := e.s.readyQ.len() + e.s.stretchReady.len()
	if asleep <= 0 || ready == 0 || !e.mayStart() {
		return
	}
	n := 1
	if e.cost > spread || e.cost == 0 {
		n = min(ready, asleep)
	}
	for range n {
		e.toRun.Signal()
	}
	e.woken += n
}

// improved tells whoever waits for room.
func (e *Engine) improved() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// finish tells the sink, if it does not know yet, and lets go of the item.
func (e *Engine) finish(it *Item, v Verdict) {
	if it.phase == finished {
		return
	}
	if v.Ack {
		e.tel.acked(it)
	}
	e.traced(it)
	e.tell(it, v)
	e.forget(it)
	e.s.remove(it)
	if it.allPrev != nil {
		it.allPrev.allNext = it.allNext
	} else {
		e.all = it.allNext
	}
	if it.allNext != nil {
		it.allNext.allPrev = it.allPrev
	}
	it.allPrev, it.allNext = nil, nil
}

// tell gives the broker its message back, once. The engine may go on with it, as far as the ledger is concerned.
func (e *Engine) tell(it *Item, v Verdict) {
	if it.told {
		return
	}
	it.told = true
	if it.behind && !v.Ack {
		e.count(it.Key.Scope, dedup{timeouts: 1})
	}
	e.out = append(e.out, Finished{Item: it, Verdict: v})
}

// timer moves what is due from waiting to claimable.
func (e *Engine) timer() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		e.mu.Lock()
		e.armed = e.s.wake(time.Now())
		next := e.armed
		e.unlock()
		if next.IsZero() {
			next = time.Now().Add(time.Hour)
		}
		t.Reset(time.Until(next))
		select {
		case <-t.C:
		case <-e.kick:
		case <-e.gone.Done():
			return
		}
	}
}
