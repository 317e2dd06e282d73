package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A test of what happens when the answer of a settlement is lost on the wire: it is repeated, and holds once.
func Example() {
	ctx := context.Background()
	l := memory.New()
	worker, err := l.Join(ctx, 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	claims, err := worker.Claim(ctx, []ledger.Entry{{
		Key: ledger.Key{Scope: "orders", ID: []byte("7")}, Delivery: []byte("copy 1"), Window: time.Hour,
	}})
	fmt.Println(claims[0].Answer, err)

	l.FailAfter(func(context.Context, memory.Op) error { return errors.New("connection reset") })
	success := []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}}
	_, err = worker.Settle(ctx, success)
	fmt.Println(err, ledger.Unknown(err))

	l.FailAfter(nil)
	fmt.Println(worker.Settle(ctx, success))
	// Output:
	// run <nil>
	// ledger: answer unknown: connection reset true
	// [<nil>] <nil>
}

// A window ends: what is finished goes, and what nobody finished is counted as abandoned.
func ExampleLedger_Stats() {
	ctx := context.Background()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	l := memory.New(memory.WithClock(func() time.Time { return now }))
	worker, err := l.Join(ctx, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	claims, err := worker.Claim(ctx, []ledger.Entry{
		{Key: ledger.Key{Scope: "orders", ID: []byte("7")}, Delivery: []byte("copy 1"), Window: time.Hour},
		{Key: ledger.Key{Scope: "orders", ID: []byte("8")}, Delivery: []byte("copy 2"), Window: time.Hour},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(worker.Settle(ctx, []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}}))

	now = now.Add(2 * time.Hour)
	pass, err := l.Sweep(ctx, ledger.MaintainConfig{Keep: 90 * 24 * time.Hour})
	fmt.Println(pass.Messages, "removed,", pass.Abandoned, "abandoned", err)

	stats, err := l.Stats(ctx)
	for _, s := range stats.Scopes {
		fmt.Println(s.Scope, s.Pending, "pending, the oldest for", s.OldestPending, err)
	}
	// Output:
	// [<nil>] <nil>
	// 1 removed, 1 abandoned <nil>
	// orders 1 pending, the oldest for 2h0m0s <nil>
}
