package dynamodb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
)

// A worker's part (join, claim, the attempt's context) is written out here; in a program, consumer does it.
func Example() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err == nil {
		err = pay(ctx, sdk.NewFromConfig(cfg), "orders-ledger", "payments")
	}
	fmt.Println(err)
}

func pay(ctx context.Context, client *sdk.Client, table, payments string) error {
	if err := dynamodb.Migrate(ctx, client, table); err != nil { // once, before the deploy
		return err
	}
	l := dynamodb.New(client, table, nil) // one a process
	owner, err := l.Join(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	claims, err := owner.Claim(ctx, []ledger.Entry{{
		Key:         ledger.Key{Scope: "payments", ID: []byte("order-17")},
		Fingerprint: ledger.BodyFingerprint([]byte("42 EUR")),
		Delivery:    []byte("message-1"),
		Window:      24 * time.Hour,
	}})
	if err != nil || claims[0].Answer != ledger.Run {
		return err
	}
	payment := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "order-17"}, "n": &types.AttributeValueMemberS{Value: "42 EUR"}}
	charge := func(ctx context.Context) error { // in a handler
		return dynamodb.InTx(ctx, func(_ context.Context, tx *dynamodb.Tx) error {
			tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &payments, Item: payment}})
			return nil
		})
	}
	if err := charge(ledger.WithAttempt(ctx, ledger.NewAttempt(owner, claims[0].Ticket))); err != nil {
		return err
	}
	return owner.Leave(ctx)
}

// TestExample runs what Example shows, which has no output of its own for want of a table in the documentation.
func TestExample(t *testing.T) {
	t.Parallel()
	c := client(t)
	table := fresh(t, c)
	if err := pay(t.Context(), c, table, table+effects); err != nil {
		t.Fatal(err)
	}
	l := dynamodb.New(c, table, nil)
	r, err := l.Get(t.Context(), ledger.Key{Scope: "payments", ID: []byte("order-17")})
	if err != nil || r.State != ledger.Succeeded {
		t.Fatalf("%+v, %v", r, err)
	}
	item, err := c.GetItem(t.Context(), &sdk.GetItemInput{TableName: new(table + effects), Key: map[string]types.AttributeValue{
		"id": &types.AttributeValueMemberS{Value: "order-17"}, "n": &types.AttributeValueMemberS{Value: "42 EUR"}}})
	if err != nil || item.Item == nil {
		t.Fatalf("%+v, %v", item, err)
	}
}
