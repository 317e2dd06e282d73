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
