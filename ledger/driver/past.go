package driver

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/internal/checks"
)

// KeepPast implements [ledger.PastKeeper].
func (l *Ledger) KeepPast(ctx context.Context, scope string, keep time.Duration) error {
	if err := checks.Past(scope, keep); err != nil {
		return err
	}
	return l.named("keep the past", l.operate(ctx, Call{}, func(tx Tx) error { return tx.KeepPast(scope, keep) }))
}
