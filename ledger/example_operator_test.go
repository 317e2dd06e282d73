package ledger_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// An operator looks at what failed and, of what succeeded by mistake, has some run again.
func ExampleOperator() {
	ctx := context.Background()
	l := memory.New()
	work(ctx, l)

	var op ledger.Operator = l
	for d, err := range op.DeadLetters(ctx, ledger.Filter{Scope: "mail@queue", Kinds: []ledger.FailureKind{ledger.KindTerminal}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s is %s: %s\n", d.Key.ID, d.Status.State, d.Errors[0].Error)
	}
	report, err := op.Reopen(ctx, ledger.ReopenRequest{
		Filter: ledger.Filter{Scope: "mail@queue", IDs: [][]byte{[]byte("m-2"), []byte("m-1")}},
		By:     ledger.By{Actor: "alex", Reason: "sent with an empty subject"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("reopened:", report.Reopened)
	for note, err := range op.Audits(ctx, ledger.AuditFilter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s by %s: %s was %s\n", note.Action, note.By.Actor, note.Key.ID, note.State)
	}
	// Output:
	// m-1 is failed: no such mailbox
	// reopened: 1
	// reopen by alex: m-2 was succeeded
}

// work fails one message and handles another.
func work(ctx context.Context, l ledger.Ledger) {
	owner, err := l.Join(ctx, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	entries := make([]ledger.Entry, 2)
	for i := range entries {
		id := fmt.Appendf(nil, "m-%d", i+1)
		entries[i] = ledger.Entry{Key: ledger.Key{Scope: "mail@queue", ID: id}, Delivery: id, Window: time.Hour}
	}
	claims, err := owner.Claim(ctx, entries)
	if err != nil {
		log.Fatal(err)
	}
	_, err = owner.Settle(ctx, []ledger.Settlement{
		{Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
			Key: entries[0].Key, Delivery: entries[0].Delivery, Kind: ledger.KindTerminal, Keep: time.Hour,
			Errors: []ledger.AttemptError{{Attempt: 1, Kind: ledger.KindTerminal, Error: "no such mailbox"}},
		}},
		{Ticket: claims[1].Ticket, Kind: ledger.Succeed},
	})
	if err != nil {
		log.Fatal(err)
	}
}
