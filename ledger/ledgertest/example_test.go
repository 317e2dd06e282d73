package ledgertest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/memory"
)

// How a store's test file offers it to the suite.
func Example() {
	open := func(*testing.T) ledgertest.Store {
		l := memory.New()
		return ledgertest.Store{
			Ledger:  l,
			Get:     l.Get,
			Declare: func(_ context.Context, id string) error { l.Declare(id); return nil },
			Drop:    func(_ context.Context, key ledger.Key) error { l.Drop(key); return nil },
			DropOwner: func(context.Context, string) error {
				return nil // one that is sealed may do as little as one that is not there
			},
		}
	}
	tests := []testing.InternalTest{
		{Name: "TestLedger", F: func(t *testing.T) { ledgertest.Run(t, open) }},
		{Name: "TestPitfall07_TwentyTakers", F: func(t *testing.T) { ledgertest.Pitfall07(t, open) }},
	}
	fmt.Println(len(tests), "tests of", open(nil).Ledger.Limits().Archive>>20, "MiB archives")
	// Output: 2 tests of 64 MiB archives
}
