package dynamodb

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// Hooks are what the tests of a store of items bring.
func (l *Ledger) Hooks() *itemstest.Hooks {
	return &itemstest.Hooks{Store: l.store.Store, Table: l.store.table}
}

// Declare seals a live owner dead, and lets its lease be over in this process.
func (l *Ledger) Declare(ctx context.Context, owner string) error {
	return l.Hooks().Declare(ctx, owner)
}

// DropOwner removes an owner that left or died.
func (l *Ledger) DropOwner(ctx context.Context, owner string) error {
	return l.Hooks().DropOwner(ctx, owner)
}

// Drop removes a message's row, and with a position all that is known of its log.
func (l *Ledger) Drop(ctx context.Context, key ledger.Key) error { return l.Hooks().Drop(ctx, key) }

// Rest makes fates and the lease of the sweep look older.
func (l *Ledger) Rest(ctx context.Context) error { return l.Hooks().Rest(ctx) }

// Age makes all that was written look older.
func (l *Ledger) Age(d time.Duration) {
	c := &l.store.table.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}
