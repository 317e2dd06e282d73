package engine

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// run is one run of a handler, and the context that the handler gets. Most handlers never wait for their context, so what
// a context costs (a channel, a timer, a place among its parent's children) is made when somebody asks for it.
type run struct {
	of     *shared
	item   *Item             // of a stretch's record nil, until it goes by itself. Its goroutine writes it, under the kernel's lock
	lead   *run              // whose context and attempt this run has: of a batch, its first run's; else its own
	msg    *consumer.Message // the handler's
	id     string            // for people; of an item empty, until it is prepared
	offset int64             // of a stretch's record
	began  time.Duration     // since calling.born
	stop   ending

	at    int32     // in its chunk
	place int32     // in its batch
	skip  flow.Skip // why it was not started; its goroutine writes it
	given bool      // SetResult had set something for the message when its handler returned; its goroutine writes it

	end *end // how it ended, written by its goroutine; nil: all went well, it is to be settled
}

// shared is what the runs of a chunk have in common.
type shared struct {
	*calling
	dispatch *flow.Dispatch
	together []*run // of a batch, those that began
	claim    *claim // of a stretch; nil: each run has its item
	claims   []itemClaim

	// Of a stretch: its lanes, and its records, of which the first run has the one at from.
	lanes   *Lanes
	records Records
	from    int
}

// itemClaim is what the item of a run was claimed with when it was dispatched. Who asks when the handler has returned is not to see
// what it is claimed with next.
type itemClaim struct {
	sess       *flow.Session
	ticket     ledger.Ticket
	generation int
}

// claim is that of a stretch.
type claim struct {
	sess  *flow.Session
	first [ledger.KeySize]byte // of the key of the stretch's first record, which refers to that record
	token uint64
}

// ticket is that of the record at an offset.
func (c *claim) ticket(offset int64) ledger.Ticket {
	return ledger.NewTicket(sumAt(c.first, offset), c.token)
}

// calling is what all runs of an engine have in common.
type calling struct {
	born    time.Time                        // what times are counted from
	timeout time.Duration                    // of one call of the handler
	owner   func(*flow.Session) ledger.Owner // that handlers have
	base    context.Context                  // values of Start's context, never cancelled by it
}

func (c *calling) now() time.Duration { return time.Since(c.born) }

// ending is how a run's context ends.
type ending struct {
	off       atomic.Bool   // we cancelled it; to be asked without the lock
	cancelled time.Duration // when we cancelled it, since calling.born; 0: we did not. The kernel's lock guards it

	mu    sync.Mutex
	gives *given        // nil: nobody has asked for it
	over  bool          // its handler has returned
	inner *inner        // nil: nobody has asked for it
	cause error         // of our cancelling it; nil: we did not
	ended time.Duration // when we cancelled it, or its handler returned, since calling.born; 0: neither
}

// given is what a handler's context has for who asks. Few handlers do.
type given struct {
	attempt  ledger.Attempt
	delivery consumer.Delivery       // of one message
	batch    *consumer.BatchDelivery // nil: it is of one message
}

// inner is the real context of a run whose handler has asked for one.
type inner struct {
	context.Context
	stop   context.CancelFunc
	cancel context.CancelCauseFunc
}

// end is how a run ended, and what follows from it.
type end struct {
	outcome outcome
	step    step
	dead    *ledger.Archive // with Fail and Park

	// With Park: what follows if the ledger does not take it.
	instead     step
	insteadDead *ledger.Archive
}

// retries says that the run failed and is to be repeated.
func (r *run) retries() bool {
	return r.skip == flow.Started && r.end != nil && (r.end.step.count || r.end.step.spared)
}

// finallyFailed says whether the message is to be archived.
func (r *run) finallyFailed() bool { return r.end != nil && r.end.step.settle == ledger.Fail }

// plain says that all went well, and there is nothing to say of it.
func (r *run) plain() bool {
	return r.skip == flow.Started && (r.end == nil || r.end == committed) && !r.given
}

// outcome is what the flow is told of a run that is over.
func (r *run) outcome() flow.Outcome {
	o := r.verdict()
	o.Burdens = o.Skip == flow.Started && r.end != nil && r.end.outcome.burdens()
	return o
}

func (r *run) verdict() flow.Outcome {
	switch {
	case r.skip != flow.Started:
		return flow.Outcome{Skip: r.skip}
	case r.end == nil && !r.given:
		return flow.Outcome{}
	case r.end == nil:
		return flow.Outcome{More: &ledger.Settlement{Kind: ledger.Succeed, Result: r.result()}}
	}
	switch st := &r.end.step; {
	case st.again || st.ack || st.ask:
		return flow.Outcome{Again: st.again, Ack: !st.again && st.ack, Ask: !st.again && !st.ack}
	case st.settle == ledger.Park:
		return flow.Outcome{More: r.settlement(st, r.end.dead), Else: r.settlement(&r.end.instead, r.end.insteadDead)}
	default:
		return flow.Outcome{More: r.settlement(st, r.end.dead), Narrow: st.narrow}
	}
}

// settlement is what a step of the run has the ledger settle.
func (r *run) settlement(st *step, dead *ledger.Archive) *ledger.Settlement {
	if st.settle == ledger.Fail {
		return &ledger.Settlement{Kind: ledger.Fail, Dead: dead, Result: r.result()}
	}
	set := &ledger.Settlement{Kind: st.settle, After: st.after, Count: st.count, Dead: dead}
	if st.settle == ledger.Park {
		set.Lane = r.item.Lane.parks()
	}
	if st.count {
		set.Failure = r.end.outcome.failure(r.item.Attempt(), time.Now())
	}
	return set
}

var _ context.Context = (*run)(nil)

// prepare fills in what the handler gets. Its goroutine calls it.
func (r *run) prepare(since time.Duration) {
	if it := r.item; it != nil {
		it.fill(r.msg)
		r.msg.Attempt = it.Attempt()
		if r.id = it.Msg.ID; string(it.Key.ID) != r.id {
			r.id = string(it.Key.ID)
		}
	}
	r.began = since
}

// session is the one in which the message was claimed.
func (r *run) session() *flow.Session {
	if r.of.claim != nil {
		return r.of.claim.sess
	}
	return r.of.claims[r.at].sess
}

// ticket is the claim's, and generation the message's.
func (r *run) ticket() (t ledger.Ticket, generation int) {
	if r.of.claim != nil {
		return r.of.claim.ticket(r.offset), 0
	}
	of := &r.of.claims[r.at]
	return of.ticket, of.generation
}

// deliver is what the context says of the message.
func (r *run) deliver() consumer.Delivery {
	t, generation := r.ticket()
	return consumer.Delivery{Message: r.msg, ID: r.id, Key: t.Sum(), Token: t.Token(), Generation: generation}
}

// asked is what the run's context has to give. Who asks for it when the handler has returned can begin nothing any more.
func (r *run) asked() *given {
	r.stop.mu.Lock()
	defer r.stop.mu.Unlock()
	if r.stop.gives == nil {
		r.stop.gives = r.gather()
		if r.stop.over {
			_, _ = r.stop.gives.attempt.Conclude()
		}
	}
	return r.stop.gives
}

func (r *run) gather() *given {
	g := &given{}
	if r.of.together == nil {
		t, _ := r.ticket()
		g.delivery = r.deliver()
		g.attempt.Init(r.of.owner(r.session()), t)
		return g
	}
	tickets := make([]ledger.Ticket, len(r.of.together))
	g.batch = &consumer.BatchDelivery{Deliveries: make([]consumer.Delivery, len(tickets))}
	for i, o := range r.of.together {
		tickets[i], _ = o.ticket()
		g.batch.Deliveries[i] = o.deliver()
	}
	g.attempt.InitBatch(r.of.owner(r.of.together[0].session()), tickets)
	return g
}

// result is what is stored with the message's success; nil: nothing.
func (r *run) result() []byte {
	r.lead.stop.mu.Lock()
	g := r.lead.stop.gives
	r.lead.stop.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.attempt.ResultAt(int(r.place))
}

// after is when the next one of its goroutine may begin, which is now: since calling.born. The clock is not asked again where
// next to nothing has been done since the handler returned.
func (r *run) after() time.Duration {
	if r.skip == flow.Started && r.end == nil && !r.stop.off.Load() {
		return r.stop.ended
	}
	return r.of.now()
}

// limit is when the handler's time is up.
func (r *run) limit() time.Time { return r.of.born.Add(r.began + r.of.timeout) }

// timeUp says whether the time was up before anything else ended the run. The run is locked.
func (r *run) timeUp() bool {
	at := r.stop.ended
	if at == 0 {
		at = r.of.now()
	}
	return at >= r.began+r.of.timeout
}

// fill makes what the next attempt gets. An attempt before it in this process may have changed the bytes in place.
func (it *Item) fill(m *consumer.Message) {
	*m = *it.Msg
	switch {
	case it.Original == nil:
		m.Key = bytes.Clone(m.Key)
	case it.ran:
		c := it.Original(it)
		m.Key, m.Body, m.Headers = bytes.Clone(c.Key), bytes.Clone(c.Body), make([]ledger.Header, len(c.Headers))
		for i, h := range c.Headers {
			m.Headers[i] = ledger.Header{Name: h.Name, Value: bytes.Clone(h.Value), Type: h.Type}
		}
	}
	it.ran = true
}

// callOff cancels the handler for a reason of ours. The kernel's lock is held.
func (r *run) callOff(cause error) {
	if r.stop.cancelled == 0 {
		r.stop.cancelled = max(r.of.now(), 1)
	}
	r.lead.stopFor(cause)
}

func (r *run) stopFor(cause error) {
	r.stop.mu.Lock()
	defer r.stop.mu.Unlock()
	if r.stop.ended != 0 {
		return
	}
	r.stop.off.Store(true)
	if r.stop.cause, r.stop.ended = cause, max(r.of.now(), 1); r.stop.inner != nil {
		r.stop.inner.cancel(cause)
	}
}

// finish ends the context, as every handler's ends when the handler has returned, and says why it was cancelled before
// that: a reason of ours, ErrTimeout, or nil. The attempt is nil if nobody has asked for it.
func (r *run) finish() (a *ledger.Attempt, cause error) {
	r.stop.mu.Lock()
	defer r.stop.mu.Unlock()
	r.stop.over = true
	if g := r.stop.gives; g != nil {
		a = &g.attempt
	}
	if r.stop.ended == 0 {
		r.stop.ended = max(r.of.now(), 1)
	}
	switch {
	case r.stop.inner != nil:
		cause = context.Cause(r.stop.inner.Context)
		r.stop.inner.stop()
		return a, cause
	case r.timeUp():
		return a, consumer.ErrTimeout
	}
	return a, r.stop.cause
}

// real returns the context behind the run. Asked for late, it says what it would say if it had been there from the
// beginning: what came first counts.
func (r *run) real() context.Context {
	r.stop.mu.Lock()
	defer r.stop.mu.Unlock()
	if r.stop.inner != nil {
		return r.stop.inner.Context
	}
	ctx, cancel := context.WithCancelCause(r.of.base)
	if r.stop.ended != 0 && !r.timeUp() {
		cancel(r.stop.cause)
	}
	ctx, stop := context.WithDeadlineCause(ctx, r.limit(), consumer.ErrTimeout)
	r.stop.inner = &inner{Context: ctx, stop: stop, cancel: cancel}
	return ctx
}

// Deadline implements context.Context.
func (r *run) Deadline() (time.Time, bool) { return r.limit(), true }

// Done implements context.Context.
func (r *run) Done() <-chan struct{} { return r.real().Done() }

// Err implements context.Context.
func (r *run) Err() error {
	r.stop.mu.Lock()
	live := r.stop.inner == nil && r.stop.ended == 0 && !r.timeUp()
	r.stop.mu.Unlock()
	if live {
		return nil
	}
	return r.real().Err()
}

// Value implements context.Context.
func (r *run) Value(key any) any {
	if _, ok := ledger.AttemptValue(key, nil); ok {
		v, _ := ledger.AttemptValue(key, &r.asked().attempt)
		return v
	}
	if key == (itemKey{}) && r.of.claim == nil {
		return r.item
	}
	if _, ok := (*consumer.BatchDelivery)(nil).Value(key); ok && r.of.together != nil {
		return r.asked().batch
	}
	if _, ok := (*consumer.Delivery)(nil).Value(key); ok && r.of.together == nil {
		return &r.asked().delivery
	}
	if key == cancelKey {
		return r.real().Value(key)
	}
	return r.of.base.Value(key)
}

type itemKey struct{}

// ItemFrom returns the item of a handler's context; of a batch's, the first. Nil: it is not a handler's.
func ItemFrom(ctx context.Context) *Item {
	it, _ := ctx.Value(itemKey{}).(*Item)
	return it
}

// String keeps the message out of what is printed of a context.
func (r *run) String() string {
	if r.id == "" { // it has not begun
		return "ackledger handler of " + string(r.item.Key.ID)
	}
	return "ackledger handler of " + r.id
}

// cancelKey is what package context asks a context for when it looks for the one that can be cancelled: only the real
// context behind a run has an answer.
var cancelKey = func() any {
	var p keyProbe
	_ = context.Cause(&p)
	return p.key
}()

type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Value(key any) any { p.key = key; return nil }

func (p *keyProbe) Err() error { return context.Canceled }

// causes are why handlers are cancelled, for their contexts.
var causes = map[flow.Cause]error{flow.Lost: ledger.ErrLost, flow.Revoked: consumer.ErrRevoked, flow.Shutdown: consumer.ErrShutdown}

// committed is the end of runs that their transactions have settled, and that went well. Nobody changes it.
var committed = &end{step: step{ack: true}}
