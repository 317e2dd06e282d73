package items_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// A ledger on a table of items; in memory here.
func Example() {
	ctx := context.Background()
	var table items.Table = itemstest.NewTable(0, 1) // yours
	store := items.New(table)
	l := driver.New(store, driver.Config{Name: "ledger/mine", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
	owner, err := l.Join(ctx, 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	key := ledger.Key{Scope: "payments", ID: []byte("order-17")}
	claims, err := owner.Claim(ctx, []ledger.Entry{{Key: key, Delivery: []byte("message-1"), Window: time.Hour}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(claims[0].Answer == ledger.Run)
	// Output: true
}
