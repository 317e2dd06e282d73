package engine

import (
	"errors"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// runBatch calls a batch handler with the runs of a chunk. They share the first one's context and attempt.
func (e *Engine) runBatch(c *chunk) {
	lead := &c.runs[0]
	runs := make([]*run, 0, len(c.runs))
	for i := range c.runs {
		if r := &c.runs[i]; e.mayBegin(c, r, time.Since(e.born)) {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return
	}
	lead.began = runs[len(runs)-1].began
	batch := make([]*consumer.Message, len(runs))
	tickets := make([]ledger.Ticket, len(runs))
	lead.batch = &consumer.BatchDelivery{Deliveries: make([]consumer.Delivery, len(runs))}
	for i, r := range runs {
		r.place = int32(i)
		batch[i], tickets[i] = &r.msg, r.item.ticket
		lead.batch.Deliveries[i] = r.delivery
	}
	lead.attempt.InitBatch(runs[0].item.sess.owner, tickets)
	e.executeBatch(lead, runs, batch)
}

// executeBatch calls the handler and notes how it ended, whichever way.
func (e *Engine) executeBatch(lead *run, runs []*run, batch []*consumer.Message) {
	ctx, span := e.tel.batchSpan(lead, batch)
	var whole outcome
	var errs []error
	returned := false
	defer func() {
		if !returned {
			whole, errs = broken(recover()), nil // an error that panics is asked nothing more
		}
		if span != nil {
			e.tel.endSpan(span, errors.Join(whole.err, errors.Join(errs...)))
		}
		e.concludeBatch(lead, runs, errs, whole)
	}()
	killpoint.At(killpoint.BeforeEffect)
	errs = e.batch.HandleBatch(ctx, batch)
	killpoint.At(killpoint.AfterEffect)
	for _, err := range errs {
		_ = readable(err)
	}
	if errs != nil && len(errs) != len(batch) {
		whole = outcome{err: consumer.BatchLengthError{Messages: len(batch), Errors: len(errs)}, kind: ledger.KindError}
		errs = nil
	}
	returned = true
}

// concludeBatch decides what becomes of the messages of a batch.
func (e *Engine) concludeBatch(lead *run, runs []*run, errs []error, whole outcome) {
	whole.cause = lead.finish()
	whole.state, whole.txErr = lead.attempt.Conclude()
	again := len(runs) > 1 && whole.spoilt()
	for i, r := range runs {
		if again {
			r.end = &end{step: step{again: true}}
			continue
		}
		o := whole
		if o.err == nil && errs != nil {
			o.err = errs[i]
		}
		if o.err != nil && o.kind == "" {
			o.kind = ledger.KindError
		}
		if o.err != nil && len(runs) > 1 && o.state == ledger.AttemptOpen && errors.Is(o.cause, consumer.ErrTimeout) {
			r.end = &end{step: step{again: true}} // one may have kept the others from their time
			continue
		}
		e.decide(r, o)
		if len(runs) > 1 {
			e.spare(r, o)
		}
	}
	if again {
		e.log.Warn("a batch came to nothing: its messages run one by one", zap.Int("messages", len(runs)),
			zap.String("kind", string(whole.kind)), zap.NamedError("transaction_error", whole.txErr), zap.Error(whole.err))
	}
}

// spare keeps the messages of a batch from what one of them may have done to all: a transaction that is left running
// counts for none, and if the database breaks off twice in a row, each runs alone from then on.
func (e *Engine) spare(r *run, o outcome) {
	if r.end == nil {
		return
	}
	if o.state == ledger.AttemptRunning && r.end.step.settle != 0 {
		r.item.single = true
		r.end.step = step{settle: ledger.Release}
	}
	if r.item.broken > 1 {
		r.item.single = true
	}
}

// spoilt says whether a batch came to nothing for a reason that may be one message's: then each runs alone. What was
// interrupted by us, and what the database is to blame for, is no message's.
func (o *outcome) spoilt() bool {
	if interrupted(o.cause) || ledger.Unavailable(o.txErr) {
		return false
	}
	switch o.state {
	case ledger.AttemptLost:
		return true
	case ledger.AttemptOpen:
		return o.err != nil || o.txErr != nil
	}
	return false // it succeeded, or may succeed still: what runs again now could have its effects twice
}

// alone makes an item of a spoilt batch ready to run again at once, by itself.
func (e *Engine) alone(it *Item) {
	it.single = true
	e.s.setPhase(it, claimed)
	switch {
	case it.sess.lost:
		e.giveBack(it)
	case it.dropped || e.draining || e.closed, e.opt.Park && e.paused, e.heldBack(it):
		e.release(it)
	default:
		e.s.readyQ.push(it)
	}
}
