package consumertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// patience bounds one delivery. It is long: a delivery that takes longer hangs.
const patience = 30 * time.Second

// Settings change how a Bench runs. The zero value is right for most tests.
type Settings struct {
	// Ledger is what the handler runs on; default a fresh memory.New(). For handlers that use sqlite.InTx or
	// postgres.InTx.
	Ledger ledger.Ledger
	// Options are the worker's; default: no backoff, and a lease of 300 ms. For handlers under test that depend on a
	// limit, a KeyFunc or Park. Backoffs should stay short: a redelivery waits for them.
	Options consumer.Options
}

// Bench delivers messages to one handler. Its methods may be called concurrently, but two deliveries of one message wait
// for each other.
type Bench struct {
	tb       testing.TB
	settings Settings
	handler  consumer.Handler
	worker   *worker

	mu     sync.Mutex
	copies int
}

// Result is what became of one delivery.
type Result struct {
	// Answer is what the ledger said last.
	Answer ledger.Answer
	// Runs is how often the handler ran in this delivery: 0 if the ledger knew the message; 2 if a batch came to nothing
	// and its messages ran alone after that; more never.
	Runs int
	// Err is what the handler returned; if it panicked, an error with the panic's text.
	Err error
	// Acked says whether the broker would delete or commit the message: with an Err it failed for good, and the ledger has archived it.
	Acked bool
	// Outcome is what the ledger had stored before this delivery, with Answer Done; else it is empty.
	Outcome ledger.Outcome
}

// New starts a bench; it ends with the test. At most one Settings is used.
func New(tb testing.TB, h consumer.Handler, settings ...Settings) *Bench {
	tb.Helper()
	if err := engine.CheckHandler(h); err != nil {
		tb.Fatalf("consumertest: New: %v", err)
	}
	b := &Bench{tb: tb, handler: h}
	if len(settings) > 0 {
		b.settings = settings[0]
	}
	if b.settings.Ledger == nil {
		b.settings.Ledger = memory.New()
	}
	o := &b.settings.Options
	o.Name = cmp.Or(o.Name, "consumertest")
	o.Lease = cmp.Or(o.Lease, 300*time.Millisecond)
	if o.BackoffBase == 0 {
		o.BackoffBase, o.BackoffMax = time.Millisecond, max(o.BackoffMax, time.Millisecond)
	}
	o.Window = cmp.Or(o.Window, time.Hour)
	full, err := o.WithDefaults()
	if err != nil {
		tb.Fatalf("consumertest: %v", err)
	}
	b.settings.Options = full
	b.worker = b.newWorker(b.settings.Ledger, full)
	tb.Cleanup(func() {
		if err := b.worker.stop(); err != nil {
			tb.Errorf("consumertest: stop: %v", err)
		}
	})
	return b
}

// Deliver delivers a message once, as a broker does: the first time, or again. The same ID is the same message. It
// returns when the worker lets go of it: acknowledged, or to be delivered again after a failed attempt.
func (b *Bench) Deliver(m consumer.Message) Result {
	b.tb.Helper()
	return b.worker.deliver(b.tb, m, m.ID)
}

// DeliverAll delivers messages at once, and returns their results in their order. A batch handler gets them together, as
// many as it takes, but of one group at most one at a time; any other handler gets each by itself.
func (b *Bench) DeliverAll(messages ...consumer.Message) []Result {
	b.tb.Helper()
	return b.worker.deliverAll(b.tb, messages, nil)
}

// Redrive delivers a copy of the message as the brokers' redrive does: with the same ID, but as another delivery. A
// message that had failed for good runs again; one that succeeded does not.
func (b *Bench) Redrive(m consumer.Message) Result {
	b.tb.Helper()
	b.mu.Lock()
	b.copies++
	delivery := fmt.Sprintf("%s redriven %d", m.ID, b.copies)
	b.mu.Unlock()
	return b.worker.deliver(b.tb, m, delivery)
}

// Crash delivers a message to a worker of its own, whose process dies when the handler has returned and before anything
// is settled: its effects have happened, the ledger does not know (unless InTx committed both). The next Deliver takes
// over, once the dead worker's lease is over (in memory at once).
func (b *Bench) Crash(m consumer.Message) Result {
	b.tb.Helper()
	return b.CrashAll(m)[0]
}

// CrashAll is Crash with messages that are delivered at once: the process dies when the first call of the handler has
// returned.
func (b *Bench) CrashAll(messages ...consumer.Message) []Result {
	b.tb.Helper()
	dying := &mortal{Ledger: b.settings.Ledger}
	o := b.settings.Options
	o.Drain = time.Millisecond
	w := b.newWorker(dying, o)
	w.after = dying.kill
	r := w.deliverAll(b.tb, messages, nil)
	_ = w.stop() // it is dead: it can neither settle nor leave
	if l, ok := b.settings.Ledger.(*memory.Ledger); ok {
		l.Declare(dying.id())
	}
	return r
}

// worker is one worker's life on the ledger.
type worker struct {
	engine *engine.Engine
	opt    consumer.Options
	spy    *spy
	after  func() // called when a handler has returned

	mu      sync.Mutex
	waiting map[*engine.Item]chan engine.Verdict
	runs    map[string]int
	errs    map[string]error
}

func (b *Bench) newWorker(l ledger.Ledger, o consumer.Options) *worker {
	b.tb.Helper()
	w := &worker{
		opt: o, spy: &spy{Ledger: l, last: map[[ledger.KeySize]byte]ledger.Claim{}},
		waiting: map[*engine.Item]chan engine.Verdict{}, runs: map[string]int{}, errs: map[string]error{},
	}
	e, err := engine.New(engine.Config{
		Options: w.opt, Ledger: w.spy, Handler: w.wrap(b.handler), Sink: w, System: "test", Source: "consumertest",
		HoldMax: time.Nanosecond, // a failed attempt ends the delivery, so that the test sees it
	})
	if err == nil {
		err = e.Start(context.Background())
	}
	if err != nil {
		b.tb.Fatalf("consumertest: start: %v", err)
	}
	w.engine = e
	return w
}

func (w *worker) stop() error {
	if err := w.engine.Drain(context.Background()); err != nil {
		return err
	}
	return w.engine.Close(context.Background())
}

// wrap counts runs, also of a handler that panics. A batch handler stays one.
func (w *worker) wrap(h consumer.Handler) consumer.Handler {
	if many, ok := h.(consumer.BatchHandler); ok {
		return consumer.Batch(min(max(many.BatchSize(), 1), consumer.MaxBatch), func(ctx context.Context, batch []*consumer.Message) (errs []error) {
			ids := make([]string, len(batch))
			for i, m := range batch {
				ids[i] = m.ID
			}
			w.watch(ids, func() []error { errs = many.HandleBatch(ctx, batch); return errs })
			return errs
		})
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) (err error) {
		w.watch([]string{m.ID}, func() []error { err = h.Handle(ctx, m); return []error{err} })
		return err
	})
}

// watch notes one call of a handler. A panic, or a Goexit, goes on: the engine is to see it too.
func (w *worker) watch(ids []string, call func() []error) {
	var errs []error
	returned := false
	defer func() {
		var panicked any
		if !returned {
			panicked = recover()
		}
		w.mu.Lock()
		for i, id := range ids {
			var err error
			switch {
			case panicked != nil:
				err = fmt.Errorf("the handler of message %s panicked: %v", id, panicked)
			case !returned:
				err = fmt.Errorf("the handler of message %s ended its goroutine", id)
			case errs != nil && len(errs) != len(ids):
				err = consumer.BatchLengthError{Messages: len(ids), Errors: len(errs)}
			case errs != nil:
				err = errs[i]
			}
			w.runs[id]++
			w.errs[id] = err
		}
		w.mu.Unlock()
		if w.after != nil {
			w.after()
		}
		if panicked != nil {
			panic(panicked)
		}
	}()
	errs = call()
	returned = true
}

// deliver offers one delivery and waits for its verdict.
func (w *worker) deliver(tb testing.TB, m consumer.Message, delivery string) Result {
	tb.Helper()
	return w.deliverAll(tb, []consumer.Message{m}, []string{delivery})[0]
}

// deliverAll offers deliveries at once and waits for all verdicts. No delivery ids: those of the messages.
func (w *worker) deliverAll(tb testing.TB, messages []consumer.Message, deliveries []string) []Result {
	tb.Helper()
	for i := range messages {
		if messages[i].ID == "" {
			tb.Fatalf("consumertest: Message.ID: must not be empty: it is the message's identity")
		}
	}
	items := make([]*engine.Item, len(messages))
	verdicts := make([]chan engine.Verdict, len(messages))
	w.mu.Lock()
	for i := range messages {
		m := messages[i]
		delivery := m.ID
		if deliveries != nil {
			delivery = deliveries[i]
		}
		items[i], verdicts[i] = w.item(m, delivery), make(chan engine.Verdict, 1)
		id := items[i].Msg.ID
		w.waiting[items[i]] = verdicts[i]
		delete(w.errs, id)
		w.runs[id] = 0
	}
	w.mu.Unlock()
	w.engine.Offer(items)
	results := make([]Result, len(messages))
	hangs := time.After(patience)
	for i, it := range items {
		results[i] = w.result(it, it.Msg.ID, w.verdict(tb, it, verdicts[i], hangs))
	}
	return results
}

// verdict waits for the verdict on one delivery; a worker that has died has none. A message that would wait for longer than a test has
// patience fails the test at once.
func (w *worker) verdict(tb testing.TB, it *engine.Item, verdict <-chan engine.Verdict, hangs <-chan time.Time) engine.Verdict {
	tb.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case v := <-verdict:
			select {
			case <-w.died(): // it could acknowledge nothing any more
				return engine.Verdict{}
			default:
				return v
			}
		case <-w.died():
			return engine.Verdict{}
		case <-look.C:
			if c := w.spy.answer(it.Key.Sum()); c.Answer == ledger.Busy && c.Wait > patience {
				tb.Fatalf("consumertest: message %s waits for its retry, which is due in %s by the ledger's clock: make Settings.Ledger one with "+
					"memory.WithClock, and move that clock on", it.Msg.ID, c.Wait.Round(time.Millisecond))
			}
		case <-hangs:
			tb.Fatalf("consumertest: message %s: no verdict within %s", it.Msg.ID, patience)
		}
	}
}

// item makes a delivery of a message, with copies of its own.
func (w *worker) item(m consumer.Message, delivery string) *engine.Item {
	original, key := bytes.Clone(m.Body), bytes.Clone(m.Key)
	headers := append([]consumer.Header(nil), m.Headers...)
	m.Source = cmp.Or(m.Source, "consumertest")
	it := &engine.Item{
		Msg: &m, Delivery: []byte(delivery),
		Original: func(*engine.Item) engine.Content { return engine.Content{Key: key, Body: original, Headers: headers} },
	}
	it.OrderingKey = m.Group
	it.Identity = engine.Identify(&w.opt, engine.Origin{Scope: w.opt.Name + "/" + m.Source, Source: m.Source}, &m)
	return it
}

func (w *worker) result(it *engine.Item, id string, v engine.Verdict) Result {
	c := w.spy.answer(it.Key.Sum())
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, it)
	return Result{Answer: c.Answer, Runs: w.runs[id], Err: w.errs[id], Acked: v.Ack, Outcome: c.Outcome}
}

// died is the channel of a worker that Crash kills; nil for any other.
func (w *worker) died() <-chan struct{} {
	if m, ok := w.spy.Ledger.(*mortal); ok {
		return m.dead()
	}
	return nil
}

// Finish implements engine.Sink.
func (w *worker) Finish(done []engine.Finished) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range done {
		if c := w.waiting[f.Item]; c != nil {
			c <- f.Verdict
		}
	}
}
