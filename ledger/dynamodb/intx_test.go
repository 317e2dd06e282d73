package dynamodb_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
)

// A batch that is more than one transaction is refused as a whole, and the error says what to set.
func TestInTxOfTooManyItems(t *testing.T) {
	t.Parallel()
	c := client(t)
	table := fresh(t, c)
	l := dynamodb.New(c, table, nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(messages int) (ledger.AttemptState, []ledger.Entry, error) {
		entries := entriesOf(table, "message", messages)
		claims, err := o.Claim(t.Context(), entries)
		if err != nil {
			t.Fatal(err)
		}
		tickets := make([]ledger.Ticket, messages)
		for i, c := range claims {
			tickets[i] = c.Ticket
		}
		a, done := ledger.NewBatchAttempt(o, tickets), table+effects
		err = dynamodb.InTx(ledger.WithAttempt(t.Context(), a), func(_ context.Context, tx *dynamodb.Tx) error {
			for _, e := range entries {
				tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &done, Item: map[string]types.AttributeValue{
					"id": &types.AttributeValueMemberS{Value: string(e.Key.ID)}, "n": &types.AttributeValueMemberS{Value: "1"}}}})
			}
			return nil
		})
		state, _ := a.State()
		return state, entries, err
	}
	state, entries, err := commit(60)
	if !errors.Is(err, dynamodb.ErrTooLarge) || state != ledger.AttemptOpen {
		t.Fatalf("InTx: %v, %v; want it refused", state, err)
	}
	for _, says := range []string{"120 items, at most 100", "60 of the ledger's", "60 of Tx.Add", "consumer.Batch"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("the error %q does not say %q", err, says)
		}
	}
	if r, err := l.Get(t.Context(), entries[0].Key); err != nil || r.State != ledger.Pending {
		t.Errorf("%v, %v; want it pending", r.State, err)
	}
}
