package memory_test

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

type groupedLedger struct {
	ledger.Ledger
	ledger.Parking
}

func (g groupedLedger) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := g.Ledger.Join(ctx, lease)
	if err != nil {
		return nil, err
	}
	return ledger.Group(o, ledger.GroupConfig{}), nil
}
