package locks_test

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/locks"
)

// A record that a handler has for long: its lock is renewed, and it is accepted when the ledger is terminal for it.
func ExampleTable() {
	t := locks.New(15)
	h := &locks.Hold{ID: "orders-0-7", Place: "orders-0", Count: 1, Until: 30 * time.Second, Span: 30 * time.Second}
	fmt.Println("new:", t.Receive(h, 0) == locks.ArrivedNew, "may start:", t.Start(h, time.Second))
	batches, _ := t.Plan(10*time.Second, true)
	t.Renewed(batches[0], map[string]locks.Outcome{"orders-0": locks.Renewed}, 10*time.Second, 11*time.Second)
	fmt.Println("locked until", h.Until, "accept:", t.Ack(h))
	// Output:
	// new: true may start: true
	// locked until 40s accept: true
}
