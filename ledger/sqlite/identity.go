package sqlite

import (
	"context"
	"fmt"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ ledger.Identified = (*Ledger)(nil)

// ID implements [ledger.Identified]. It is the id by which the ledger's two files know each other.
func (l *Ledger) ID(ctx context.Context) (string, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	id, err := metaText(ctx, l.store.read, "ledger")
	if err != nil {
		return "", fmt.Errorf("ledger/sqlite: read the ledger's id: %w", err)
	}
	return id, nil
}
