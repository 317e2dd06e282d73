package driver_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/memory"
)

// counting is a store that counts its transactions.
type counting struct {
	driver.Store
	n int
}

// Update implements [driver.Store].
func (c *counting) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	c.n++
	return c.Store.Update(ctx, call, fn)
}

// A ledger in a store whose transactions take two messages each.
func Example() {
	store := &counting{Store: memory.NewStore()}
	l := driver.New(store, driver.Config{Name: "counting", Limits: ledger.DefaultLimits, Keys: 2})
	owner, err := l.Join(context.Background(), time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	var entries []ledger.Entry
	for i := range 5 {
		id := strconv.AppendInt(nil, int64(i), 10)
		entries = append(entries, ledger.Entry{Key: ledger.Key{Scope: "orders", ID: id}, Delivery: id, Window: time.Hour})
	}
	claims, err := owner.Claim(context.Background(), entries)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range claims {
		fmt.Print(c.Answer, " ")
	}
	fmt.Println("in", store.n, "transactions")
	// Output: run run run run run in 3 transactions
}
