package items_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// ahead is a way to a table on which somebody does something just before the next write of what was read.
type ahead struct {
	items.Table
	next func()
}

func (a *ahead) Write(ctx context.Context, sets []*items.Set) error {
	if do := a.next; do != nil && sets[0].Changes[0].Was != nil {
		a.next = nil
		do()
	}
	return a.Table.Write(ctx, sets)
}

func join(t *testing.T, table items.Table) ledger.Owner {
	t.Helper()
	l := driver.New(items.New(table), driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Ungroup(o)
}

// Two owners had one delivery of a message. While one claimed it, the other claimed it first, and it failed for good. The first was told
// that somebody was ahead, read the message anew, and knew from before that the delivery was not archived: so it took it for a redrive,
// and ran what had failed for good.
func TestPitfall201_FailedWhileClaimed(t *testing.T) {
	t.Parallel()
	table := itemstest.NewTable(0, 1)
	way := &ahead{Table: table}
	mine, other := join(t, way), join(t, table)
	ctx := t.Context()
	for n := range 20 { // a table may tell what stands there, or not
		e := ledger.Entry{Key: ledger.Key{Scope: "s", ID: fmt.Append(nil, "message ", n)}, Delivery: []byte("copy"), Window: time.Hour}
		claim := func(o ledger.Owner) ledger.Claim {
			t.Helper()
			claims, err := o.Claim(ctx, []ledger.Entry{e})
			if err != nil {
				t.Fatal(err)
			}
			return claims[0]
		}
		settle := func(o ledger.Owner, s ledger.Settlement) {
			t.Helper()
			if errs, err := o.Settle(ctx, []ledger.Settlement{s}); err != nil || errs[0] != nil {
				t.Fatal(errs, err)
			}
		}
		settle(other, ledger.Settlement{Ticket: claim(other).Ticket, Kind: ledger.Release})
		way.next = func() {
			settle(other, ledger.Settlement{Ticket: claim(other).Ticket, Kind: ledger.Fail,
				Dead: &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Kind: ledger.KindTerminal, Keep: 24 * time.Hour}})
		}
		if got := claim(mine); got.Answer != ledger.Done || got.Outcome.State != ledger.Failed {
			t.Errorf("message %d, which failed for good: %v, %v", n, got.Answer, got.Outcome.State)
		}
	}
}
