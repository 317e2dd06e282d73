package dynamodb_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
)

// A body that takes several items is archived whole, once, also where the transaction that names it is run twice, and a purge leaves
// nothing of it in the table.
func TestLargeBody(t *testing.T) {
	t.Parallel()
	c := client(t)
	table := fresh(t, c)
	l := dynamodb.New(c, table, nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	secret := bytes.Repeat([]byte("card number 4929 "), 50_000)
	entry := entriesOf(table, "large", 1)
	settleAs(t, o, entry, func(_ int, claim ledger.Claim) ledger.Settlement {
		renew(t, c, table)
		return ledger.Settlement{Ticket: claim.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: entry[0].Key, Delivery: entry[0].Delivery,
			Kind: ledger.KindTerminal, Body: secret, Keep: time.Hour}}
	})
	r, err := l.Get(t.Context(), entry[0].Key)
	if err != nil || len(r.Archived) != 1 || !bytes.Equal(r.Archived[0].Body, secret) {
		t.Fatalf("%d archived, %v", len(r.Archived), err)
	}
	if n := copies(t, c, table); n != 3 {
		t.Errorf("%d items hold the body, want 3", n)
	}
	p, err := l.Purge(t.Context(), ledger.PurgeRequest{Filter: ledger.Filter{Scope: table}, By: ledger.By{Actor: "test"}})
	if err != nil || p.Purged != 1 {
		t.Fatalf("purge: %+v, %v", p, err)
	}
	if n := copies(t, c, table); n != 0 {
		t.Errorf("%d items hold the body after a purge", n)
	}
}

// A key of Kafka that is larger than an item is archived whole, and what fails beside it has its answer. The table refused it, and with it
// all that was settled in its call, for ever.
func TestLargeKey(t *testing.T) {
	t.Parallel()
	c := client(t)
	table := fresh(t, c)
	l := dynamodb.New(c, table, nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{2 << 10, 3 << 10, 1 << 20} {
		key := strings.Repeat("4929", size/4)
		entries := entriesOf(table, fmt.Sprint("large key ", size), 2)
		settleAs(t, o, entries, func(i int, claim ledger.Claim) ledger.Settlement {
			return ledger.Settlement{Ticket: claim.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: entries[i].Key, Delivery: entries[i].Delivery,
				Kind: ledger.KindTerminal, Body: []byte("body"), Group: key[:size*i], Keep: time.Hour,
				Headers: []ledger.Header{{Name: "name", Value: []byte("value")}}}}
		})
		r, err := l.Get(t.Context(), entries[1].Key)
		if err != nil || len(r.Archived) != 1 {
			t.Fatalf("%d archived, %v", len(r.Archived), err)
		}
		if a := r.Archived[0]; a.Group != key || string(a.Body) != "body" || len(a.Headers) != 1 || string(a.Headers[0].Value) != "value" {
			t.Errorf("a key of %d bytes, body %q and headers %v; want %d bytes", len(a.Group), a.Body, a.Headers, size)
		}
		for d, err := range l.DeadLetters(t.Context(), ledger.Filter{Scope: table, Group: key}) {
			if err != nil || d.Group != key {
				t.Errorf("the dead letter: a key of %d bytes, %v", len(d.Group), err)
			}
		}
		p, err := l.Purge(t.Context(), ledger.PurgeRequest{Filter: ledger.Filter{Scope: table, Group: key}, By: ledger.By{Actor: "test"}})
		if err != nil || p.Purged != 1 {
			t.Errorf("purge by a key of %d bytes: %+v, %v", size, p, err)
		}
		if n := copies(t, c, table); n != 0 {
			t.Errorf("%d items hold a key of %d bytes after a purge", n, size)
		}
	}
}

// renew gives the message another version, as a reader does that must know the end of what is under way.
func renew(t *testing.T, c *sdk.Client, table string) {
	t.Helper()
	rows, err := c.Scan(t.Context(), &sdk.ScanInput{TableName: &table, FilterExpression: aws.String("begins_with(k, :m)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":m": &types.AttributeValueMemberB{Value: []byte("m")}}})
	if err != nil || len(rows.Items) != 1 {
		t.Fatalf("%d messages, %v", len(rows.Items), err)
	}
	rows.Items[0]["v"] = &types.AttributeValueMemberB{Value: []byte("another")}
	if _, err := c.PutItem(t.Context(), &sdk.PutItemInput{TableName: &table, Item: rows.Items[0]}); err != nil {
		t.Fatal(err)
	}
}

// copies counts the items that hold a part of the body.
func copies(t *testing.T, c *sdk.Client, table string) (n int) {
	t.Helper()
	pages := sdk.NewScanPaginator(c, &sdk.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			for _, v := range i {
				if b, ok := binaryOf(v); ok && bytes.Contains(b, []byte("4929")) {
					n++
				}
			}
		}
	}
	return n
}

// binaryOf is the value of an attribute of bytes.
func binaryOf(v types.AttributeValue) ([]byte, bool) {
	b, ok := v.(*types.AttributeValueMemberB)
	if !ok {
		return nil, false
	}
	return b.Value, true
}
