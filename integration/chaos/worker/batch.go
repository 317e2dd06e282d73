package main

import (
	"context"
	"errors"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// batchSize is how many messages a batch handler gets at most.
const batchSize = 10

// batches is the handler for workers that take batches. Fine messages have their effects in one transaction, plain ones each
// by itself; a batch of several classes is refused as a whole, and comes again message by message.
func (h *handler) batches() consumer.Handler {
	return consumer.Batch(batchSize, func(ctx context.Context, batch []*consumer.Message) []error {
		if len(batch) == 1 {
			return []error{h.Handle(ctx, batch[0])}
		}
		class := plan.Parse(batch[0].Body)
		for _, m := range batch {
			if c := plan.Parse(m.Body); c != class || !c.Succeeds() {
				return []error{} // not of the batch's length
			}
		}
		return h.together(ctx, class, batch)
	})
}

// together handles a batch of one class, without faults.
func (h *handler) together(ctx context.Context, class plan.Class, batch []*consumer.Message) []error {
	h.page.Add(plan.Running, 1)
	defer h.page.Add(plan.Running, -1)
	errs := make([]error, len(batch))
	for i, m := range batch {
		h.page.Add(plan.Begun, 1)
		if errs[i] = errors.Join(h.note(ctx, m), h.calls(ctx, m)); errs[i] == nil && class == plan.Plain {
			errs[i] = h.store.plain(ctx, m)
		}
	}
	if class == plan.Plain {
		return errs
	}
	err := errors.Join(errs...)
	if err == nil { // one transaction has the effects of all: where one has failed, none of them is done
		err = h.store.effect(ctx, batch...)
	}
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}
