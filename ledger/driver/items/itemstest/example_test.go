package itemstest_test

import (
	"context"
	"fmt"

	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// A table on which others are ahead now and then, and what the conformance suite does to a store of it.
func Example() {
	table := itemstest.NewTable(0.1, 1) // somebody is ahead of one set in ten
	store := items.New(table)
	hooks := &itemstest.Hooks{Store: store, Table: table}
	fmt.Println(hooks.Declare(context.Background(), "1"))
	// Output: <nil>
}
