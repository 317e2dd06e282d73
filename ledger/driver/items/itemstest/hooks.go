package itemstest

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// Hooks do to a store of items what the conformance suite asks of a store's tests (ledgertest.Store has fields of these names).
type Hooks struct {
	Store *items.Store
	Table items.Table
}

func ownerID(owner string) driver.OwnerID {
	n, _ := strconv.ParseInt(owner, 10, 64) // what is no number is nobody's
	return driver.OwnerID(n)
}

// Declare declares a live owner dead, and lets its lease be over in this process.
func (h *Hooks) Declare(ctx context.Context, owner string) error {
	return h.Store.Declare(ctx, ownerID(owner))
}

// DropOwner removes an owner's item.
func (h *Hooks) DropOwner(ctx context.Context, owner string) error {
	return h.Table.Delete(ctx, []items.Name{items.OwnerName(ownerID(owner))})
}

// Drop removes a message's row, and with a position all that is known of its log.
func (h *Hooks) Drop(ctx context.Context, key ledger.Key) error {
	names := []items.Name{items.MessageName(key.Sum())}
	if key.Pos != nil {
		id, _ := driver.SplitKey(key.Sum())
		names = append(names, items.LogNames(id)...)
	}
	return h.Table.Delete(ctx, names)
}

// Rest makes fates, and the lease of the sweep, look older.
func (h *Hooks) Rest(ctx context.Context) error {
	for i, err := range h.Table.Query(ctx, items.Query{Place: items.OwnerName(0).Place}) {
		if err != nil {
			return err
		}
		if at, sealed := i[items.Over]; sealed {
			is := maps.Clone(i)
			is[items.Over] = items.Number(at.Number - 2*ledger.OwnerRest.Microseconds())
			if err := h.Table.Put(ctx, []items.Item{is}); err != nil {
				return err
			}
		}
	}
	return h.Store.Update(ctx, driver.Call{Op: driver.Sweep}, func(t driver.Tx) error {
		turn, err := t.Turn()
		if err != nil {
			return err
		}
		turn.Lease = time.Time{}
		return t.PutTurn(turn)
	})
}
