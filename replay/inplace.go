package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// InPlaceOptions are what a replay in place is built of, beside the handler. The zero value of each field means its default.
type InPlaceOptions struct {
	// Options are the worker's own; give both the same. Name is required: the consumer (Kafka: the group) whose failures the
	// handler is for; those of others are refused. KeyFunc and FingerprintFunc are asked about what SQS moved by itself, when the
	// ledger has nothing under its MessageId, and about what they failed for: other dead letters have their identity.
	// Concurrency is that of the run, and the ledger is not maintained. Window is by default 90 days.
	consumer.Options
	// Sources are the queues (ARN) and topics (`cluster/topic`) that the handler is for; empty: all of the consumer. For
	// people whose consumer has a handler for each.
	Sources []string
}

// DefaultWindow is how long the ledger recognises a message that was handled in place.
const DefaultWindow = 90 * 24 * time.Hour

// InPlace is a target that runs the user's handler in this process, under the engine's rules: attempts, time limits,
// InTx, suspects one at a time. Nothing is sent. It is the default for Kafka in a program, because a record that is put
// back on a topic reaches every group.
//
// Each dead letter is a claim with a delivery of its own, `replay:`, the failing claim's token and the fingerprint: the same
// failure is handled once, by whichever replay is first, and another body under its id is archived beside it. A handler that fails leaves the message pending with its backoff (a later
// run tries again) or, at the last attempt, failed and archived anew. A process that is killed leaves the message pending
// and, once its lease is over, nobody's: the next replay goes on with it.
//
// The ledger of the run must be a ledger.Ledger too; the stores of this module are.
func InPlace(h consumer.Handler, o *InPlaceOptions) (Target, error) {
	if err := engine.CheckHandler(h); err != nil {
		return nil, fmt.Errorf("replay: InPlace: %w", err)
	}
	if o == nil || o.Name == "" {
		return nil, errors.New("replay: InPlace: InPlaceOptions.Name must be the consumer whose failures are handled, is empty")
	}
	t := &inPlace{handler: h, sources: o.Sources}
	if o.Window == 0 {
		o = &InPlaceOptions{Options: o.Options, Sources: o.Sources}
		o.Window = DefaultWindow
	}
	var err error
	if t.opt, err = o.WithDefaults(); err != nil {
		return nil, fmt.Errorf("replay: InPlaceOptions: %w", err)
	}
	t.opt.NoMaintenance, t.opt.ArchiveBudget = true, 0 // nor does a full archive stop what a person asks for
	return t, nil
}

type inPlace struct {
	opt     consumer.Options
	sources []string
	handler consumer.Handler
	op      ledger.Operator
	eng     *engine.Engine // nil: a dry run
}

// place is one letter in the engine's hands.
type place struct {
	begun atomic.Bool
	done  chan engine.Verdict
}

func (t *inPlace) String() string { return "the handler of " + strconv.Quote(t.opt.Name) }
func (t *inPlace) Most() int      { return 1 }

// Begin implements Target.
func (t *inPlace) Begin(ctx context.Context, b Begin) error {
	l, ok := b.Operator.(ledger.Ledger)
	if !ok {
		return fmt.Errorf("replay: InPlace: the run's ledger must be a ledger.Ledger, is a %T", b.Operator)
	}
	t.op = b.Operator
	if b.DryRun {
		return nil
	}
	t.opt.Concurrency = b.Concurrency
	eng, err := engine.New(engine.Config{
		Options: t.opt, Ledger: l, Handler: t.handler, Sink: t, System: "replay", Source: b.Source, Group: t.opt.Name,
		HoldMax: time.Nanosecond, // what waits for its next attempt is the next run's
	})
	if err != nil {
		return err
	}
	if err := eng.Start(ctx); err != nil {
		return errors.Join(fmt.Errorf("replay: %w", err), eng.Close(context.WithoutCancel(ctx)))
	}
	t.eng = eng
	return nil
}

// Accept implements Target.
func (t *inPlace) Accept(l *Letter) error {
	switch {
	case l.Consumer != t.opt.Name:
		return fmt.Errorf("the handler is that of consumer %q, not of %q", t.opt.Name, l.Consumer)
	case len(t.sources) > 0 && !slices.Contains(t.sources, l.Message.Source):
		return ErrElsewhere
	}
	return nil
}

// Send implements Target: it handles letters, one after the other.
func (t *inPlace) Send(ctx context.Context, letters []*Letter) []Result {
	results := make([]Result, len(letters))
	for i, l := range letters {
		if ctx.Err() != nil {
			results[i].Reason = Behind
			continue
		}
		results[i] = t.handle(ctx, l)
	}
	return results
}

// Finish implements engine.Sink.
func (t *inPlace) Finish(done []engine.Finished) {
	for _, f := range done {
		f.Item.Ref.(*place).done <- f.Verdict
	}
}

// item makes what the engine gets of a letter.
func (t *inPlace) item(l *Letter, p *place) *engine.Item {
	m := l.Message
	m.Received = 0
	whole := engine.Content{Key: l.Message.Key, Body: l.Message.Body, Headers: l.Message.Headers}
	m.Headers = slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = slices.Clone(m.Headers[i].Value)
	}
	m.Key, m.Body = slices.Clone(m.Key), slices.Clone(m.Body)
	it := &engine.Item{
		Msg:      &m,
		Delivery: fmt.Appendf(nil, "replay:%d:%x", l.decision.Token, l.Fingerprint[:]), Window: t.opt.Window,
		Original: func(*engine.Item) engine.Content { return whole },
		Alive:    func(*engine.Item) bool { p.begun.Store(true); return true },
		Ref:      p,
	}
	it.Identity = engine.Identity{Key: l.Key, Fingerprint: l.Fingerprint, StampToken: l.decision.Token, Copy: true}
	return it
}

// rekey gives a letter the key that a worker would find. One for which that fails is refused.
func (t *inPlace) rekey(l *Letter) {
	id := engine.Identify(&t.opt, engine.Origin{Scope: l.Key.Scope, Source: l.Message.Source}, &l.Message)
	if id.Invalid != nil {
		l.decision, l.why = Decision{Step: Refuse, Reason: unkeyed}, id.Invalid
		return
	}
	l.Key, l.Fingerprint, l.Token = id.Key.Known(), id.Fingerprint, 0
}

// handle runs the handler for one letter, if nobody else has its message.
func (t *inPlace) handle(ctx context.Context, l *Letter) Result {
	p := &place{done: make(chan engine.Verdict, 1)}
	item := t.item(l, p)
	t.eng.Offer([]*engine.Item{item})
	mine := func(it *engine.Item) bool { return it == item }
	// A peer's lease that is over ends at the latest when our own beats were confirmed for a whole lease.
	patience := time.NewTimer(2*t.opt.Lease + 10*time.Second)
	defer patience.Stop()
	cancelled := ctx.Done()
	var hopeless <-chan time.Time
	for {
		select {
		case v := <-p.done:
			return t.result(ctx, l, v, p.begun.Load())
		case <-patience.C:
			if !p.begun.Load() {
				t.eng.Drop(mine, 0)
			}
		case <-cancelled:
			cancelled = nil
			t.eng.Drop(mine, t.opt.Drain)
			hopeless = time.After(t.opt.Drain + finishing)
		case <-hopeless:
			return Result{Err: errors.New("its handler does not end")}
		}
	}
}

// result asks the ledger what became of a message.
func (t *inPlace) result(ctx context.Context, l *Letter, v engine.Verdict, begun bool) Result {
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishing)
	defer cancel()
	rec, err := t.op.Get(ledger.WithoutBodies(asked), l.Key)
	if err != nil {
		return Result{Err: fmt.Errorf("ask the ledger what became of it: %w", err)}
	}
	switch {
	case v.Ack && rec.State == ledger.Succeeded:
		return Result{Outcome: Handled}
	case v.Ack && rec.State == ledger.Failed:
		return Result{Outcome: Broken, Err: errors.New(lastError(rec)), Reason: broke}
	case ctx.Err() != nil || !begun:
		return Result{Reason: Live}
	case v.Ack: // it moved on since
		return Result{Reason: changed}
	}
	return Result{Err: errors.New(lastError(rec)), Reason: broke}
}

// lastError is what the last attempt failed of.
func lastError(rec ledger.Record) string {
	list := rec.Errors
	if n := len(rec.Archived); rec.State == ledger.Failed && n > 0 {
		list = rec.Archived[n-1].Errors
	}
	if len(list) == 0 {
		return string(broke)
	}
	return list[len(list)-1].Error
}

// End implements Target.
func (t *inPlace) End(ctx context.Context) error {
	if t.eng == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.opt.Drain+finishing)
	defer cancel()
	err := t.eng.Drain(ctx)
	if err = errors.Join(err, t.eng.Close(ctx)); err != nil {
		t.opt.Logger.Warn("the replay's engine", zap.Error(err))
	}
	t.eng = nil
	return err
}
