package items_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
	"github.com/ackledger/ackledger/ledger/ledgertest"
)

// store is one with transactions for handlers: what these write is in the same set.
type store struct {
	*items.Store
	table *itemstest.Table
}

type effectsKey struct{}

// inTx commits effects with the successes of an attempt.
func inTx(ctx context.Context, fn func(context.Context) error) error {
	f, s, err := driver.Begin[*store](ctx)
	if err != nil {
		return err
	}
	return f.Run(ctx, time.Second, func() (ledger.AttemptState, error) {
		var more []items.Change
		if err := fn(context.WithValue(ctx, effectsKey{}, &more)); err != nil {
			return ledger.AttemptOpen, err
		}
		if err := f.Commits(); err != nil {
			return ledger.AttemptOpen, err
		}
		ctx := context.WithoutCancel(ctx)
		for n := 0; ; n++ {
			set, err := s.Fenced(ctx, f, n > 0)
			if ledger.IsLost(err) {
				return ledger.AttemptLost, err
			}
			if err != nil {
				return ledger.AttemptOpen, err
			}
			set.Changes = append(set.Changes, more...)
			if err := s.table.Write(ctx, []*items.Set{set}); err != nil {
				return ledger.AttemptOpen, err
			}
			if set.Written {
				s.Remember(set)
				f.Committed()
				return ledger.AttemptSucceeded, nil
			}
		}
	})
}

// effects is the place of what handlers have written.
const effects = "effects"

func open(t *testing.T) ledgertest.Store {
	t.Helper()
	table := itemstest.NewTable(0.1, 1)
	s := &store{items.New(table), table}
	l := driver.New(s, driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
	hooks := itemstest.Hooks{Store: s.Store, Table: table}
	return ledgertest.Store{Ledger: l, Get: l.Get, Declare: hooks.Declare, Drop: hooks.Drop, DropOwner: hooks.DropOwner, Rest: hooks.Rest,
		Age:  func(_ context.Context, d time.Duration) error { table.Age(d); return nil },
		InTx: inTx, InTxMost: 45,
		Effect: func(ctx context.Context, id string) error {
			n := items.Name{Place: effects, Sort: uuid.NewString()}
			is := n.Item()
			is["id"] = items.Bytes(id)
			more := ctx.Value(effectsKey{}).(*[]items.Change)
			*more = append(*more, items.Change{Name: n, Is: is})
			return nil
		},
		Effects: func(ctx context.Context) (map[string]int, error) {
			out := map[string]int{}
			for i, err := range table.Query(ctx, items.Query{Place: effects}) {
				if err != nil {
					return nil, err
				}
				out[string(i["id"].Bytes)]++
			}
			return out, nil
		},
	}
}

func TestLedger(t *testing.T)         { ledgertest.Run(t, open) }
func TestInTx(t *testing.T)           { ledgertest.RunInTx(t, open) }
func TestSteps(t *testing.T)          { ledgertest.RunSteps(t, open) }
func TestStepsOperate(t *testing.T)   { ledgertest.RunStepsOperate(t, open) }
func TestOperate(t *testing.T)        { ledgertest.RunOperate(t, open) }
func TestMaintain(t *testing.T)       { ledgertest.RunMaintain(t, open) }
func TestRanged(t *testing.T)         { ledgertest.RunRanged(t, open) }
func TestRangedMaintain(t *testing.T) { ledgertest.RunRangedMaintain(t, open) }
func TestRangedReopen(t *testing.T)   { ledgertest.RunRangedReopen(t, open) }
func TestBoard(t *testing.T)          { ledgertest.RunBoard(t, open) }
func TestDifferential(t *testing.T)   { ledgertest.Differential(t, open, 100) }

// TestNoOutbox: what a handler publishes is refused by name, and nothing waits.
func TestNoOutbox(t *testing.T) {
	t.Parallel()
	s := open(t)
	o, err := s.Ledger.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("m")}, Delivery: []byte("m"),
		Fingerprint: ledger.BodyFingerprint([]byte("m")), Window: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	a := ledger.NewAttempt(o, claims[0].Ticket)
	err = s.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error { return a.Publish(ctx, ledger.Outgoing{Target: "t"}) })
	if !errors.Is(err, ledger.ErrNoOutbox) {
		t.Fatalf("%v, want ErrNoOutbox", err)
	}
	box := s.Ledger.(ledger.Outbox)
	if list, err := box.ListOutbox(t.Context(), "", 0, 1, false); err != nil || len(list) > 0 {
		t.Fatal(list, err)
	}
	if _, _, err := box.TakeLane(t.Context(), []string{"t"}, time.Minute); !errors.Is(err, ledger.ErrNoOutbox) {
		t.Fatalf("%v, want ErrNoOutbox", err)
	}
}
