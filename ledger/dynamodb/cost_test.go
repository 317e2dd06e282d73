package dynamodb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// TestCost counts what DynamoDB would charge: two writes for a first message that succeeds, next to nothing for a record of a range,
// and a write a beat for a worker that is idle.
func TestCost(t *testing.T) {
	t.Parallel()
	c, way, err := connect(t.Context(), services.DynamoDB(t), dynamodbtest.Options{Capacity: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	table := fresh(t, c)
	l := dynamodb.New(c, table, nil)
	o, err := l.Join(t.Context(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	warm := entriesOf(table, "warm", 25)
	settleAll(t, o, warm)

	const messages = 500
	used := measure(way, func() { settleAll(t, o, entriesOf(table, "message", messages)) })
	used.most(t, "a message", messages, 2.1, 0.1)

	failed := entriesOf(table, "failed", messages)
	used = measure(way, func() {
		for part := range slices.Chunk(failed, 50) { // each is a transaction of its own, and a call has ten seconds
			settleAs(t, o, part, func(i int, c ledger.Claim) ledger.Settlement {
				return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: part[i].Key, Delivery: part[i].Delivery,
					Fingerprint: part[i].Fingerprint, Kind: ledger.KindTerminal, Body: make([]byte, 200), Keep: time.Hour}}
			})
		}
	})
	used.most(t, "a failure with its archive", messages, 7.1, 1.2)

	done := table + effects
	committed := entriesOf(table, "committed", 100)
	used = measure(way, func() {
		claims, err := o.Claim(t.Context(), committed)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range claims {
			err := dynamodb.InTx(ledger.WithAttempt(t.Context(), ledger.NewAttempt(o, c.Ticket)), func(_ context.Context, tx *dynamodb.Tx) error {
				tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &done, Item: map[string]types.AttributeValue{
					"id": &types.AttributeValueMemberS{Value: fmt.Sprint(i)}, "n": &types.AttributeValueMemberS{Value: "1"}}}})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	used.most(t, "a message by InTx with one write", len(committed), 5.1, 1.1)

	const records = 4000
	ranged := make([]ledger.Entry, records)
	for i := range ranged {
		ranged[i] = ledger.Entry{Key: ledger.Key{Scope: table, ID: fmt.Appendf(nil, "topic-0-%d", i),
			Pos: &ledger.Position{Log: "cluster/topic/0", Epoch: 1, Offset: int64(i), Prev: int64(i) - 1}}, Window: time.Hour, Ranged: true, Delivery: fmt.Append(nil, i)}
	}
	used = measure(way, func() { settleAll(t, o, ranged) })
	used.most(t, "a record", records, 0.02, 0.01)

	used = measure(way, func() {
		if _, err := o.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	used.most(t, "a beat", 1, 1, 2)
}

func entriesOf(scope, name string, n int) []ledger.Entry {
	list := make([]ledger.Entry, n)
	for i := range list {
		id := fmt.Appendf(nil, "%s-%032d", name, i)
		list[i] = ledger.Entry{Key: ledger.Key{Scope: scope, ID: id}, Delivery: id, Window: 14 * 24 * time.Hour,
			Fingerprint: ledger.Fingerprint(fmt.Appendf(nil, "fingerprint %04d", i))}
	}
	return list
}

// settleAll claims messages and succeeds.
func settleAll(t *testing.T, o ledger.Owner, entries []ledger.Entry) {
	t.Helper()
	settleAs(t, o, entries, func(_ int, c ledger.Claim) ledger.Settlement {
		return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}
	})
}

// settleAs claims messages and settles them.
func settleAs(t *testing.T, o ledger.Owner, entries []ledger.Entry, how func(int, ledger.Claim) ledger.Settlement) {
	t.Helper()
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	done := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		if c.Answer != ledger.Run {
			t.Fatalf("entry %d: %v", i, c.Answer)
		}
		done[i] = how(i, c)
	}
	errs, err := o.Settle(t.Context(), done)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("settlement %d: %v", i, err)
		}
	}
}

// used is what something consumed.
type used struct {
	writes   float64
	requests int
}

func measure(way *dynamodbtest.Transport, do func()) used {
	before := way.Usage()
	do()
	after := way.Usage()
	u := used{writes: after.Total().Write + after.Total().IndexWrite - before.Total().Write - before.Total().IndexWrite}
	for op, n := range after.Calls {
		u.requests += n - before.Calls[op]
	}
	return u
}

// most checks what one of n costs.
func (u used) most(t *testing.T, what string, n int, writes, requests float64) {
	t.Helper()
	if w, r := u.writes/float64(n), float64(u.requests)/float64(n); w > writes || r > requests || w == 0 {
		t.Errorf("%s: %.4f write units and %.4f requests, want at most %v and %v", what, w, r, writes, requests)
	} else {
		t.Logf("%s: %.4f write units, %.4f requests", what, w, r)
	}
}
