package flow_test

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// One message goes through: it is claimed, run, settled, and its worker is told.
func Example() {
	f := flow.New(flow.Config{Concurrency: 1, BatchSize: 1, ClaimAhead: 10, MaxHeldBytes: 1 << 20})
	f.Joined(&flow.Session{})
	it := &flow.Item{Identity: flow.Identity{Key: ledger.Key{Scope: "orders", ID: []byte("order 17")}}, Size: 100}
	now := time.Duration(0) // since any moment
	f.Offer(now, it)

	var c flow.Claim
	fmt.Println("claim:", f.NextClaim(now, &c), string(c.Items[0].Key.ID))
	f.Claimed(now, &c, []ledger.Claim{{Answer: ledger.Run, Ticket: ledger.NewTicket(it.Key.Sum(), 1), Attempt: 1}}, nil)
	f.ClaimOver(&c)

	d, _ := f.Next(now, 1)
	fmt.Println("run:", string(d.Items[0].Key.ID), "attempt", d.Items[0].Attempt())
	f.Ran(now, d, flow.Outcome{}) // it went well
	f.Free(d)

	var b flow.Batch
	fmt.Println("settle:", f.NextSettle(0, &b), b.Items[0].Full().Kind)
	f.Settled(now, &b, []error{nil}, nil)
	f.SettleOver(0, &b)

	f.End().Reset()
	var t flow.Telling
	fmt.Println("tell:", f.Tell(&t), t.Finished[0].Verdict.Ack)
	f.Told(&t)
	// Output:
	// claim: true order 17
	// run: order 17 attempt 1
	// settle: true succeed
	// tell: true true
}
