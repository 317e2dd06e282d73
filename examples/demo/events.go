package main

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// kind is what a worker tells its parent.
type kind string

const (
	started   kind = "started"   // the worker asks the ledger for its first messages
	delivered kind = "delivered" // the broker handed a message over
	ran       kind = "ran"       // a handler began
	declined  kind = "declined"  // a handler failed, the message will be tried again
	answered  kind = "answered"  // the ledger said Done: a duplicate, or a redelivery after a kill
)

// event is one line on the worker's standard output. A line is one write, so a kill loses none that was sent.
type event struct {
	Kind   kind   `json:"kind"`
	Broker string `json:"broker"`
	N      int    `json:"n"`
	Scope  string `json:"scope,omitempty"` // with started: of this broker's messages in the ledger
}

// reporter writes the events of one broker's worker.
type reporter struct {
	broker string
	out    *os.File
}

func (r reporter) tell(k kind, n int) { r.write(event{Kind: k, Broker: r.broker, N: n}) }

func (r reporter) write(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	_, _ = r.out.Write(append(line, '\n')) // without a parent the process ends anyway, see runWorker
}

// counting is a ledger that reports what only the ledger sees: the duplicates, which never reach a handler.
type counting struct {
	ledger.Ledger
	reporter
}

// Join implements ledger.Ledger.
func (c counting) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := c.Ledger.Join(ctx, lease)
	if err != nil {
		return nil, err
	}
	return &countingOwner{Owner: o, reporter: c.reporter}, nil
}

type countingOwner struct {
	ledger.Owner
	reporter
	first sync.Once
}

// Unwrap lets InTx find the store's own owner.
func (o *countingOwner) Unwrap() ledger.Owner { return o.Owner }

// Claim implements ledger.Owner.
func (o *countingOwner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	o.first.Do(func() { o.write(event{Kind: started, Broker: o.broker, N: 1, Scope: entries[0].Key.Scope}) })
	claims, err := o.Owner.Claim(ctx, entries)
	done := 0
	for i := range claims {
		if claims[i].Answer == ledger.Done {
			done++
		}
	}
	if done > 0 {
		o.tell(answered, done)
	}
	return claims, err
}
