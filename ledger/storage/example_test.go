package storage_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// The list of a message's errors, as a store keeps it in one column.
func Example() {
	limit := ledger.DefaultLimits.Errors
	list := storage.AppendError(nil, ledger.AttemptError{Attempt: 1, Kind: ledger.KindTimeout, Error: "no answer"}, limit)
	list = storage.AppendError(list, ledger.AttemptError{Attempt: 2, Kind: ledger.KindError, Error: "the bank refuses"}, limit)
	column := storage.EncodeErrors(list)

	read, err := storage.DecodeErrors(column)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range read {
		fmt.Println(e.Attempt, e.Kind, e.Error)
	}
	// Output:
	// 1 timeout no answer
	// 2 error the bank refuses
}

// After a restore the ledger is another one to its workers, and its tokens are above all that were given out before.
func ExampleInEpoch() {
	root, epoch := storage.EpochOf("orders")
	next := storage.InEpoch("orders", epoch+1, rand.Uint32())
	again, now := storage.EpochOf(next)
	fmt.Println(strings.HasPrefix(next, "orders-r1-"), again == root, now)
	fmt.Println(storage.TokenFloor(now) > storage.TokenFloor(now-1))
	// Output:
	// true true 1
	// true
}
