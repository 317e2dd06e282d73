package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// Engine runs the messages of one worker.
type Engine struct {
	cfg Config
	opt consumer.Options
	*kernel
	life      *life
	lease     *lease
	admission *admission
	claimer   *claimer
	settler   *settler
	pool      *pool
	publisher *publisher
	apart     *apartRunner
	upkeep    *upkeep
	permits   *permits
	notes     *notes
	reports   *reporter
}

// New builds an engine. It refuses a configuration without ledger, handler or sink.
func New(cfg Config) (*Engine, error) {
	if IsNil(cfg.Ledger) || IsNil(cfg.Handler) || IsNil(cfg.Sink) {
		return nil, errors.New("engine: ledger, handler and sink must not be nil")
	}
	o := cfg.Options
	if _, ok := cfg.Ledger.(ledger.ArchiveMeter); !ok && o.ArchiveBudget > 0 {
		return nil, fmt.Errorf("engine: Options.ArchiveBudget: needs a ledger that says how much is archived (ledger.ArchiveMeter), is a %T", cfg.Ledger)
	}
	e := &Engine{cfg: cfg, opt: o, life: &life{}}
	size, batch := 1, consumer.BatchHandler(nil)
	if batch, _ = cfg.Handler.(consumer.BatchHandler); batch != nil {
		size = min(max(batch.BatchSize(), 1), consumer.MaxBatch)
	}
	e.life.gone, e.life.giveUp = context.WithCancel(context.Background())
	e.life.starts, e.life.endStarts = context.WithCancel(e.life.gone)
	e.kernel = newKernel(&e.cfg, flow.New(flowConfig(&o, &cfg, size, batch != nil)))
	e.log = o.Logger.With(zap.String("system", cfg.System), zap.String("source", cfg.Source), zap.String("consumer", o.Name))
	e.build(batch)
	tel, meter, err := newTelemetry(&e.cfg)
	if err != nil {
		return nil, err
	}
	e.tel = tel
	sends, err := relayOf(cfg.Ledger, &o)
	if err != nil {
		return nil, err
	}
	if sends != nil {
		e.upkeep.relay = sends
	}
	if err := observe(e, tel, meter); err != nil { // the last: metrics may be collected from now on
		return nil, err
	}
	return e, nil
}

// build makes the parts that carry out what the flow decides.
func (e *Engine) build(batch consumer.BatchHandler) {
	k, o := e.kernel, &e.opt
	e.notes = &notes{log: e.log, limit: e.cfg.Ledger.Limits().Archive, retained: e.cfg.Retained, unwise: o.Warnings(conns(e.cfg.Ledger))}
	for _, text := range e.notes.unwise {
		e.log.Warn(text)
	}
	parking := newParking(k, e.life, &e.cfg)
	if parking != nil {
		k.revived = parking.back
	}
	k.counts = newDeliveries(e.cfg.Ledger, e.log)
	e.lease = &lease{kernel: k, life: e.life, opt: o, ledger: e.cfg.Ledger, probe: make(chan struct{}, 1), heedless: e.cfg.Shown.Heedless}
	e.admission = newAdmission(e.life.starts, o)
	archives := &archives{kernel: k, cfg: &e.cfg}
	e.claimer = &claimer{kernel: k, lease: e.lease, opt: o, archives: archives, heard: e.cfg.Heard}
	e.settler = &settler{kernel: k, lease: e.lease, archives: archives}
	e.pool = &pool{
		kernel: k, lease: e.lease, admission: e.admission, chunks: map[*chunk]struct{}{},
		handlers: newHandlers(k, e.lease, &e.cfg, batch, archives, parking),
	}
	e.reports = &reporter{kernel: k, pool: e.pool, self: self(e.cfg.Shown.Scopes), lag: e.cfg.Shown.Lag}
	e.lease.report = e.reports.report
	e.publisher = newPublisher(k, e.life, &e.cfg, archives)
	e.apart = &apartRunner{kernel: k, lease: e.lease, admission: e.admission, claimer: e.claimer, pool: e.pool, publisher: e.publisher, places: e.cfg.Suspects}
	if e.apart.places == nil {
		e.apart.places = oneSuspect
	}
	e.permits = &permits{kernel: k, lease: e.lease, claimer: e.claimer}
	e.upkeep = &upkeep{kernel: k, life: e.life, opt: o, notes: e.notes}
}

// conns is how many connections the transactions of handlers have at most; 0: any number.
func conns(l ledger.Ledger) int {
	if p, ok := l.(ledger.Pooled); ok {
		return p.TxConns()
	}
	return 0
}

func flowConfig(o *consumer.Options, cfg *Config, size int, batch bool) flow.Config {
	c := flow.Config{
		Concurrency: o.Concurrency, MinConcurrency: o.MinConcurrency, Conns: conns(cfg.Ledger), Batch: batch, BatchSize: size, ClaimAhead: o.ClaimAhead, MaxHeldBytes: o.MaxHeldBytes,
		LimitStarts: o.Limiter != nil || o.Rate > 0 || o.Park, Park: o.Park, Target: o.DeadLetter != nil, Cipher: o.Cipher != nil,
		HoldMax: cfg.HoldMax, AskMax: cfg.AskMax, Told: cfg.Told, Backoff: backoff.Policy{Base: o.BackoffBase, Max: o.BackoffMax}, Budget: o.ArchiveBudget,
		Scopes: cfg.Shown.Scopes, Seed: rand.Uint64(),
	}
	if o.FairBy != nil || o.FairShare > 0 || len(o.FairWeights) > 0 {
		places := 2 * o.Concurrency * size // as many as run, and as many that are claimed or settled meanwhile
		c.Rules = []flow.Rule{flow.Fair(flow.FairConfig{Places: places, Share: cmp.Or(o.FairShare, places), Weights: o.FairWeights,
			Name: func(it *flow.Item) string { return it.Tenant }})}
	}
	if o.Limit != nil {
		c.Permits = flow.PermitsConfig{Places: 2 * o.Concurrency * size, Limit: func(it *flow.Item) (string, int) { return it.Limit, it.LimitMost }}
	}
	if b := o.Breaker; !b.Off {
		c.Failures, c.Percent = b.Failures, b.Percent
	}
	return c
}

// Start joins the ledger and begins to work. It returns ledger.Unusable errors at once, keeps trying on others until ctx is done,
// and is called once.
func (e *Engine) Start(ctx context.Context) error {
	e.life.base = consumer.WithStepCipher(context.WithoutCancel(ctx), e.opt.Cipher)
	e.pool.handlers.calling.base = e.life.base
	sess, err := e.lease.untilJoined(ctx, ledger.Unusable)
	if err != nil {
		return err
	}
	loops := &e.life.loops
	loops.Go(func() { e.lease.keep(sess) })
	loops.Go(func() { e.timer(e.life.gone.Done()) })
	loops.Go(e.apart.suspects)
	loops.Go(e.apart.probes)
	loops.Go(e.pool.rescue)
	if m, ok := e.cfg.Ledger.(ledger.Maintainer); ok && !e.opt.NoMaintenance {
		loops.Go(func() { e.upkeep.sweep(m) })
	}
	if m, ok := e.cfg.Ledger.(ledger.ArchiveMeter); ok && e.opt.ArchiveBudget > 0 {
		loops.Go(func() { e.upkeep.weigh(m) })
	}
	if e.opt.Limit != nil {
		loops.Go(e.permits.ask)
		loops.Go(e.permits.giveBack)
		loops.Go(e.permits.turns)
	}
	if e.upkeep.relay != nil {
		loops.Go(e.upkeep.relays)
	}
	if e.opt.Pressure != nil {
		loops.Go(func() { e.upkeep.press(e.opt.Pressure) })
	}
	if p := e.pool.handlers.parking; p != nil {
		loops.Go(p.loop)
	}
	e.sayParksNot()
	for range callers {
		loops.Go(e.claimer.loop)
		loops.Go(e.settler.loop)
	}
	for range e.opt.Concurrency {
		e.pool.goroutines.Go(e.pool.loop)
	}
	for i := 0; i < publishers && e.publisher.needed(); i++ {
		loops.Go(e.publisher.loop)
	}
	return nil
}

// sayParksNot says that long retries wait in memory, where the ledger is to blame.
func (e *Engine) sayParksNot() {
	if e.cfg.Shown.Revive == nil || e.opt.NoParking {
		return
	}
	if p := e.pool.handlers.parking; p == nil || !p.ledger.Parks() {
		e.log.Info("this ledger parks no messages: retries that wait for long wait in memory, and hold their place at the broker",
			zap.String("ledger", fmt.Sprintf("%T", e.cfg.Ledger)))
	}
}

// Offer hands items over. It never blocks and never refuses; the worker asks Room first. All items come back through
// Sink.Finish.
func (e *Engine) Offer(items []*Item) {
	e.notes.look(e.tel, items)
	e.do(func(f *flow.Flow, now time.Duration) {
		clock := e.at(now)
		for _, it := range items {
			it.came(clock)
			e.notes.measure(it)
			if it.Skip {
				e.tel.skipped(1)
			}
			f.Offer(now, &it.Item)
		}
	})
}

// Stretches says whether it pays now to offer stretches, of records that have an order or none. Whoever does so anyway, offers
// what they are made of.
func (e *Engine) Stretches(ordered bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flow.Ranges(ordered)
}

// OfferStretch is Offer for records that lie side by side. They come back through Sink.Finish, together or one by one.
func (e *Engine) OfferStretch(st *Stretch) {
	st.Range = flow.Range{Records: st, Claim: st.Claim, Ordered: st.Ordered, Len: st.Records.Len(), Of: st}
	e.do(func(f *flow.Flow, now time.Duration) {
		st.came = e.at(now)
		f.OfferRange(now, &st.Range)
	})
}

// Pause is consumer.Worker's.
func (e *Engine) Pause() { e.do(func(f *flow.Flow, now time.Duration) { f.Pause(now) }) }

// Resume is consumer.Worker's.
func (e *Engine) Resume() { e.do(func(f *flow.Flow, _ time.Duration) { f.Resume() }) }
