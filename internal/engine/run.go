package engine

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// run is one run of a handler, and the context that the handler gets. Most handlers never wait for their context, so what
// a context costs (a channel, a timer, a place among its parent's children) is made when somebody asks for it.
type run struct {
	e        *Engine
	item     *Item
	lead     *run             // whose context and attempt this run has: of a batch, its first run's; else its own
	msg      consumer.Message // the handler's copy
	delivery consumer.Delivery
	attempt  ledger.Attempt
	batch    *consumer.BatchDelivery
	place    int32         // in its batch
	off      atomic.Bool   // we cancelled it; to be asked without its lock
	began    time.Duration // since Engine.born

	mu    sync.Mutex
	inner *inner        // nil: nobody has asked for it
	cause error         // of our cancelling it; nil: we did not
	ended time.Duration // when we cancelled it, or its handler returned, since Engine.born; 0: neither
	skip  skip          // why it was not started; its goroutine writes it
	given bool          // SetResult had set something for the message when its handler returned; its goroutine writes it

	end       *end          // how it ended, written by its goroutine; nil: all went well, it is to be settled
	cancelled time.Duration // when we cancelled it, since Engine.born; 0: we did not. The engine's lock guards it
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
}

// skip says why a handler was not started after all.
type skip uint8

const (
	started   skip = iota
	notAlive       // the broker has it back
	leaseOver      // perhaps not ours any more: the process was frozen, or the ledger does not answer
	calledOff      // cancelled before it began
)

var _ context.Context = (*run)(nil)

// prepare fills in what the handler gets. Its goroutine calls it.
func (r *run) prepare(since time.Duration) {
	it := r.item
	it.fill(&r.msg)
	r.msg.Attempt = it.attempt
	id := it.Msg.ID
	if string(it.Key.ID) != id {
		id = string(it.Key.ID)
	}
	r.delivery = consumer.Delivery{
		Message: &r.msg, ID: id, Key: it.Key.Sum(), Token: it.ticket.Token(), Generation: it.generation,
	}
	r.began = since
}

// after is when the next one of its goroutine may begin, which is now: since Engine.born. The clock is not asked again where
// next to nothing has been done since the handler returned.
func (r *run) after() time.Duration {
	if r.skip == started && r.end == nil && !r.off.Load() {
		return r.ended
	}
	return time.Since(r.e.born)
}

// limit is when the handler's time is up.
func (r *run) limit() time.Time { return r.e.born.Add(r.began + r.e.opt.HandlerTimeout) }

// timeUp says whether the time was up before anything else ended the run. The run is locked.
func (r *run) timeUp() bool {
	at := r.ended
	if at == 0 {
		at = time.Since(r.e.born)
	}
	return at >= r.began+r.e.opt.HandlerTimeout
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

// result is what SetResult has set for the message.
func (r *run) result() []byte {
	if !r.given {
		return nil
	}
	return r.lead.attempt.ResultAt(int(r.place))
}

// callOff cancels the handler for a reason of ours. The engine's lock is held.
func (r *run) callOff(cause error) {
	if r.cancelled == 0 {
		r.cancelled = max(time.Since(r.e.born), 1)
	}
	r.lead.stopFor(cause)
}

func (r *run) stopFor(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != 0 {
		return
	}
	r.off.Store(true)
	if r.cause, r.ended = cause, max(time.Since(r.e.born), 1); r.inner != nil {
		r.inner.cancel(cause)
	}
}

// finish ends the context, as every handler's ends when the handler has returned, and says why it was cancelled before
// that: a reason of ours, ErrTimeout, or nil.
func (r *run) finish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == 0 {
		r.ended = max(time.Since(r.e.born), 1)
	}
	switch {
	case r.inner != nil:
		cause := context.Cause(r.inner.Context)
		r.inner.stop()
		return cause
	case r.timeUp():
		return consumer.ErrTimeout
	}
	return r.cause
}

// real returns the context behind the run. Asked for late, it says what it would say if it had been there from the
// beginning: what came first counts.
func (r *run) real() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inner != nil {
		return r.inner.Context
	}
	ctx, cancel := context.WithCancelCause(r.e.base)
	if r.ended != 0 && !r.timeUp() {
		cancel(r.cause)
	}
	ctx, stop := context.WithDeadlineCause(ctx, r.limit(), consumer.ErrTimeout)
	r.inner = &inner{Context: ctx, stop: stop, cancel: cancel}
	return ctx
}

// Deadline implements context.Context.
func (r *run) Deadline() (time.Time, bool) { return r.limit(), true }

// Done implements context.Context.
func (r *run) Done() <-chan struct{} { return r.real().Done() }

// Err implements context.Context.
func (r *run) Err() error {
	r.mu.Lock()
	live := r.inner == nil && r.ended == 0 && !r.timeUp()
	r.mu.Unlock()
	if live {
		return nil
	}
	return r.real().Err()
}

// Value implements context.Context.
func (r *run) Value(key any) any {
	if v, ok := ledger.AttemptValue(key, &r.attempt); ok {
		return v
	}
	if r.batch != nil {
		if v, ok := r.batch.Value(key); ok {
			return v
		}
	} else if v, ok := r.delivery.Value(key); ok {
		return v
	}
	if key == cancelKey {
		return r.real().Value(key)
	}
	return r.e.base.Value(key)
}

// String keeps the message out of what is printed of a context.
func (r *run) String() string {
	id := r.delivery.ID
	if id == "" { // it has not begun; once it has, the item may be another message's, see Records.Items
		id = string(r.item.Key.ID)
	}
	return "ackledger handler of " + id
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
