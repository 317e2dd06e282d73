package ledger_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// A worker claims a message, handles it, and settles it; a redelivery is then answered from the ledger.
func Example() {
	ctx := context.Background()
	worker, err := memory.New().Join(ctx, 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	body := []byte(`{"order":7}`)
	entry := ledger.Entry{
		Key:         ledger.Key{Scope: "payments orders", ID: []byte("order 7")},
		Fingerprint: ledger.BodyFingerprint(body),
		Delivery:    []byte("copy 1"),
		Window:      14 * 24 * time.Hour,
	}
	for range 2 {
		claims, err := worker.Claim(ctx, []ledger.Entry{entry})
		if err != nil {
			fmt.Println(err)
			return
		}
		c := claims[0]
		fmt.Printf("%v %q\n", c.Answer, c.Outcome.Result)
		if c.Answer == ledger.Run {
			errs, err := worker.Settle(ctx, []ledger.Settlement{{
				Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("receipt 41"),
			}})
			fmt.Println(errs, err)
		}
	}
	// Output:
	// run ""
	// [<nil>] <nil>
	// done "receipt 41"
}

func ExampleDecide() {
	row := &ledger.Row{
		State: ledger.Pending, Token: 4, Holder: ledger.Dead, Crashes: 0,
		Fingerprint: ledger.BodyFingerprint([]byte("body")),
	}
	d := ledger.Decide(row, ledger.Entry{Fingerprint: row.Fingerprint})
	fmt.Println(d.Answer, "token", d.Token, "crashes", d.Crashes)
	// Output: run token 5 crashes 1
}

func ExampleGroup() {
	ctx := context.Background()
	store, err := memory.New().Join(ctx, 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	worker := ledger.Group(store, ledger.GroupConfig{Items: 500})
	fmt.Println(worker.ID() == store.ID(), ledger.Unwrap(worker) == ledger.Unwrap(store))
	// Output: true true
}
