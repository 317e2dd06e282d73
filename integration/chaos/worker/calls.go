package main

import (
	"context"
	"crypto/rand"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// call is an outside call of a message, as the service elsewhere notes it: under an id that no other call has.
type call struct {
	child, body, step, id, process string
	token                          int64
}

// calls makes the outside calls of a message that has some, each of which is a step.
func (h *handler) calls(ctx context.Context, m *consumer.Message) error {
	if !plan.HasCalls(h.orders.Seed, m.Body) {
		return nil
	}
	ctx = consumer.For(ctx, m)
	for _, step := range plan.Calls {
		row := call{child: consumer.ChildKey(ctx, step), body: string(m.Body), step: step, process: h.orders.Name, token: int64(consumer.Token(ctx))}
		var err error
		row.id, err = consumer.Step(ctx, step, func(ctx context.Context, key string) (string, error) {
			made := row
			made.child, made.id = key, rand.Text()
			return made.id, h.store.note(ctx, plan.CallMade, &made)
		})
		if err != nil {
			return err
		}
		if err := h.store.note(ctx, plan.CallReturned, &row); err != nil {
			return err
		}
	}
	return nil
}
