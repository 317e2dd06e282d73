package lambdasqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs"
)

const (
	askMax  = 500 * time.Millisecond // between two questions whether a message that others hold is free
	dueMax  = time.Second            // for which a retry that is not due is waited
	waitFor = 3                      // leases, for which a message that others hold is waited
)

// record is one record of an event.
type record struct {
	id    string // MessageId
	group string // of a FIFO queue; else empty
	acked bool
}

// invocation is one life in the ledger: it joins, handles one event and leaves.
type invocation struct {
	*Handler
	arn    string
	span   span
	from   []events.SQSMessage
	eng    *engine.Engine
	groups groups
	waits  time.Time     // until then messages that others hold are waited for; set before anything is offered
	all    chan struct{} // closed when the engine has let go of every record

	mu      sync.Mutex
	records []record
	left    int // records in the engine's hands
}

func newInvocation(h *Handler, arn string, s span, from []events.SQSMessage) *invocation {
	inv := &invocation{Handler: h, arn: arn, span: s, from: from, all: make(chan struct{}), records: make([]record, len(from))}
	for i := range from {
		inv.records[i].id = from[i].MessageId
	}
	return inv
}

// run handles the event, and returns in time for the response. An error says that nothing was handled.
func (inv *invocation) run(ctx context.Context) error {
	if err := inv.build(); err != nil {
		return fmt.Errorf("lambdasqs: %w", err)
	}
	base := context.WithoutCancel(ctx)
	defer inv.leave(base)
	joining, cancel := context.WithDeadlineCause(ctx, inv.span.joinBy, ErrNoLedger)
	defer cancel()
	if err := inv.eng.Start(joining); err != nil {
		if joining.Err() != nil && !errors.Is(err, ErrNoLedger) { // it is the last call's own
			err = fmt.Errorf("%w: %w", ErrNoLedger, err)
		}
		return fmt.Errorf("lambdasqs: nothing is handled: %w%s", err, inv.why())
	}
	items := inv.items()
	inv.waits = time.Now().Add(waitFor * inv.span.lease)
	inv.offer(items)
	stop := time.NewTimer(time.Until(inv.span.stop))
	defer stop.Stop()
	select {
	case <-inv.all:
	case <-stop.C:
	case <-ctx.Done():
	}
	inv.eng.Drop(func(*engine.Item) bool { return true }, 0)
	if err := inv.eng.Drain(base); err != nil {
		inv.cfg.Logger.Warn("the invocation's time is up: what is still in hand comes again", zap.String("source", inv.arn), zap.Error(err))
	}
	return nil
}

// build makes the engine. Its settings follow from the time that there is.
func (inv *invocation) build() (err error) {
	o := inv.cfg.Options
	o.Lease, o.HandlerTimeout = inv.span.lease, inv.span.handler
	o.Drain = max(inv.span.end.Sub(inv.span.stop)/2, time.Millisecond)
	inv.eng, err = engine.New(engine.Config{
		Options: o, Ledger: inv.ledger, Handler: inv.handler, Sink: inv, System: "sqs", Source: inv.arn, HoldMax: -1, AskMax: askMax,
		Heard: inv.heard, Failed: inv.groups.stop, Shown: engine.Shown{Heedless: true}, // what it did not handle would walk into the dead-letter queue
	})
	return err
}

// why says what the ledger answered last.
func (inv *invocation) why() string {
	if last := inv.eng.Health().LastError; last != "" {
		return ": " + last
	}
	return ""
}

// leave ends the invocation's life in the ledger. A ledger that does not answer keeps the response from nothing: what is acknowledged
// is durable, and peers free the rest when the lease is over.
func (inv *invocation) leave(base context.Context) {
	ctx, cancel := context.WithDeadline(base, inv.span.end)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- inv.eng.Close(ctx) }()
	var err error
	select {
	case err = <-closed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		inv.cfg.Logger.Warn("the ledger was not left in time: what the invocation still holds is free when its lease is over",
			zap.String("source", inv.arn), zap.Duration("lease", inv.span.lease), zap.Error(err))
	}
}

// offer hands what can be handled to the engine.
func (inv *invocation) offer(items []*engine.Item) {
	if inv.left = len(items); inv.left == 0 {
		close(inv.all)
		return
	}
	inv.eng.Offer(items)
}

// items makes what the engine gets of the records. It has a quarter of the time that is left: a record whose identity takes longer
// (Options.KeyFunc, Options.FingerprintFunc) comes again, and what is behind it in its group.
func (inv *invocation) items() []*engine.Item {
	items := make([]*engine.Item, len(inv.from))
	answers := make(chan identified, len(items))
	for i := range items {
		items[i] = inv.item(i)
		own := *items[i].Msg
		go func() { answers <- inv.identify(i, own) }()
	}
	limit := time.NewTimer(time.Until(inv.span.stop) / 4)
	defer limit.Stop()
	known := make([]*engine.Item, len(items))
	for n := len(items); n > 0; {
		select {
		case a := <-answers:
			it := items[a.index]
			it.Msg.ID, it.Identity, known[a.index] = a.id, a.Identity, it
			n--
		case <-limit.C:
			n = 0
		}
	}
	for i, it := range known {
		if it == nil {
			inv.groups.stop(items[i])
			inv.cfg.Logger.Warn("the message's identity was not known in time: it comes again", zap.String("message_id", inv.from[i].MessageId))
		}
	}
	return slices.DeleteFunc(known, func(it *engine.Item) bool { return it == nil })
}

// identified is a record whose identity is known.
type identified struct {
	index int
	id    string // what the handler sees
	engine.Identity
}

// identify has a message of its own: left behind, it may still write to it.
func (inv *invocation) identify(i int, m consumer.Message) identified {
	from := engine.Origin{
		Key: ledger.Key{Scope: sqs.Scope(inv.arn, inv.cfg.Name), ID: []byte(m.ID)}, Source: inv.arn, Records: engine.NoRecords{},
	}
	id := engine.Identify(&inv.cfg.Options, from, &m)
	return identified{index: i, id: m.ID, Identity: id}
}

// item makes an item of a record, without its identity.
func (inv *invocation) item(i int) *engine.Item {
	raw := rawOf(&inv.from[i])
	m := sqs.Received(&raw, inv.arn)
	it := &engine.Item{
		Msg: &m, Delivery: []byte(m.ID), Window: inv.cfg.Window, Ref: i, Alive: inv.alive,
		Original: func(*engine.Item) engine.Content {
			again := sqs.Received(&raw, inv.arn)
			return engine.Content{Body: again.Body, Headers: again.Headers}
		},
	}
	if !m.SentAt.IsZero() {
		it.Deadline = m.SentAt.Add(inv.cfg.Retention - min(5*time.Minute, inv.cfg.Retention/10))
	}
	if isFIFO(inv.arn) {
		it.OrderingKey = m.Group
		inv.records[i].group = m.Group
	}
	return it
}

// alive is asked right before a handler starts: not in a group that has stopped before it, and not when the time is up, as after a process was
// frozen in mid-invocation.
func (inv *invocation) alive(it *engine.Item) bool {
	return !inv.groups.stopped(it) && time.Now().Before(inv.span.stop)
}

// heard stops the group of what fails without a run. It has a message given back that the ledger refuses or that would be waited for
// too long.
func (inv *invocation) heard(it *engine.Item, a *ledger.Claim) {
	if a.Answer == ledger.Spent || a.Answer == ledger.Mismatch || it.Invalid != nil {
		inv.groups.stop(it)
	}
	late := !a.Held && !a.Suspect && a.Wait > dueMax || time.Now().After(inv.waits)
	if a.Err == nil && (a.Answer != ledger.Busy || !late) {
		return
	}
	inv.groups.stop(it)
	inv.eng.Drop(func(o *engine.Item) bool { return o == it }, 0)
}

// Finish implements engine.Sink.
func (inv *invocation) Finish(done []engine.Finished) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for _, f := range done {
		inv.records[f.Item.Ref.(int)].acked = f.Verdict.Ack
	}
	if inv.left -= len(done); inv.left == 0 {
		close(inv.all)
	}
}

// unfinished returns the MessageIds that are to be delivered again, each once, in the order of the event: what is not acknowledged,
// and all of its group behind that.
func (inv *invocation) unfinished() (ids []string) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	behind, named := map[string]bool{}, map[string]bool{}
	for _, r := range inv.records {
		if r.acked && (r.group == "" || !behind[r.group]) {
			continue
		}
		behind[r.group] = true
		if !named[r.id] {
			named[r.id] = true
			ids = append(ids, r.id)
		}
	}
	return ids
}

var _ engine.Sink = (*invocation)(nil)
