package engine

import (
	"errors"
	"slices"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// runBatch calls a batch handler with the runs of a chunk. They share the first one's context and attempt.
func (h *handlers) runBatch(c *chunk) {
	lead, asked := &c.runs[0], false
	runs := make([]*run, 0, len(c.runs))
	for i := range c.runs {
		held, is := h.waits(c, &c.runs[i])
		if asked = asked || is; !held {
			runs = append(runs, &c.runs[i])
		}
	}
	runs = slices.DeleteFunc(runs, func(r *run) bool { return asked && h.tooLate(r) || !h.mayBegin(c, r, h.now()) })
	if len(runs) == 0 {
		return
	}
	lead.began, c.together = runs[len(runs)-1].began, runs
	batch := make([]*consumer.Message, len(runs))
	for i, r := range runs {
		r.place, batch[i] = int32(i), r.msg
	}
	h.executeBatch(lead, runs, batch)
}

// executeBatch calls the handler and notes how it ended, whichever way.
func (h *handlers) executeBatch(lead *run, runs []*run, batch []*consumer.Message) {
	ctx, span := h.tel.batchSpan(lead, batch)
	var whole outcome
	var errs []error
	returned := false
	defer func() {
		if !returned {
			whole, errs = broken(recover()), nil // an error that panics is asked nothing more
		}
		if span != nil {
			h.tel.endSpan(span, errors.Join(whole.err, errors.Join(errs...)))
		}
		h.concludeBatch(lead, runs, errs, whole)
	}()
	killpoint.At(killpoint.BeforeEffect)
	errs = h.batch.HandleBatch(ctx, batch)
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
func (h *handlers) concludeBatch(lead *run, runs []*run, errs []error, whole outcome) {
	a, cause := lead.finish()
	if whole.cause = cause; a != nil {
		whole.state, whole.txErr = a.Conclude()
	}
	again := len(runs) > 1 && whole.spoilt()
	for i, r := range runs {
		if again {
			r.end = &end{outcome: whole, step: step{again: true}}
			continue
		}
		o := whole
		if o.err == nil && errs != nil {
			o.err = errs[i]
		}
		if o.err != nil && len(runs) > 1 && o.state == ledger.AttemptOpen && errors.Is(o.cause, consumer.ErrTimeout) {
			r.end = &end{outcome: o, step: step{again: true}} // one may have kept the others from their time
			continue
		}
		r.given = a != nil && a.ResultAt(i) != nil
		h.decide(r, o)
		if len(runs) > 1 {
			h.spare(r, o)
		}
	}
	if again {
		h.log.Warn("a batch came to nothing: its messages run one by one", zap.Int("messages", len(runs)),
			zap.String("kind", string(whole.failed())), zap.NamedError("transaction_error", whole.txErr), zap.Error(whole.err))
	}
}

// spare keeps the messages of a batch from what one of them may have done to all: a transaction that is left running
// counts for none, and if the database breaks off twice in a row, each runs alone from then on.
func (h *handlers) spare(r *run, o outcome) {
	if r.end == nil || r.end == committed {
		return
	}
	if o.state == ledger.AttemptRunning && r.end.step.settle != 0 {
		r.item.Single()
		r.end.step = step{settle: ledger.Release}
	}
	if r.item.broken > 1 {
		r.item.Single()
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

// runChunk runs what a goroutine has taken.
func (h *handlers) runChunk(c *chunk) {
	if c.dispatch.Together {
		if c.beginAll() {
			h.runBatch(c)
		}
		return
	}
	since := h.now()
	for r := c.begin(); r != nil; r = c.begin() {
		held, asked := h.waits(c, r)
		if asked {
			since = h.now()
		}
		if !held && (!asked || !h.tooLate(r)) && h.mayBegin(c, r, since) {
			h.execute(r)
		}
		since = r.after()
		if !r.plain() && (c.dispatch.Ordered() || r.finallyFailed()) {
			break // those behind it may have to wait for it, or for the breaker
		}
	}
}
