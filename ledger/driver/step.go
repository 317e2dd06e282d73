package driver

import (
	"context"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Steps implements [ledger.StepReader].
func (o *owner) Steps(ctx context.Context, t ledger.Ticket) (list []ledger.Step, err error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	err = o.l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
		list, err = r.Steps(t.Sum(), true)
		return err
	})
	if err != nil {
		return nil, o.named("read steps for", err)
	}
	return list, nil
}
