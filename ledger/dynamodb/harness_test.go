package dynamodb_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
	"github.com/ackledger/ackledger/ledger/ledgertest"
)

// connect makes a client of the tests' server, on whose way what faults says goes wrong.
func connect(ctx context.Context, endpoint string, faults dynamodbtest.Options) (*sdk.Client, *dynamodbtest.Transport, error) {
	faults.JoinSets = endpoint != dynamodbtest.AWS
	way, err := dynamodbtest.New(faults)
	if err != nil {
		return nil, nil, err
	}
	c, err := dynamodbtest.Connect(ctx, endpoint, func(o *sdk.Options) { o.HTTPClient = &http.Client{Transport: way} })
	return c, way, err
}

// client is a client on whose way nothing goes wrong.
func client(t *testing.T) *sdk.Client {
	t.Helper()
	c, way, err := connect(t.Context(), services.DynamoDB(t), dynamodbtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	return c
}

// fresh is a new table, and one of effects beside it.
func fresh(t *testing.T, c *sdk.Client) string {
	t.Helper()
	table := services.Name(t)
	if err := dynamodb.Migrate(t.Context(), c, table); err != nil {
		t.Fatal(err)
	}
	text := func(name string, as types.KeyType) (types.AttributeDefinition, types.KeySchemaElement) {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}, types.KeySchemaElement{AttributeName: &name, KeyType: as}
	}
	id, first := text("id", types.KeyTypeHash)
	n, second := text("n", types.KeyTypeRange)
	if _, err := c.CreateTable(t.Context(), &sdk.CreateTableInput{TableName: aws.String(table + effects), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{id, n}, KeySchema: []types.KeySchemaElement{first, second}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{table, table + effects} {
			if _, err := c.DeleteTable(context.WithoutCancel(t.Context()), &sdk.DeleteTableInput{TableName: &name}); err != nil {
				t.Errorf("table %s: %v", name, err)
			}
		}
	})
	return table
}

// effects ends the name of the table of effects.
const effects = "-effects"

type txKey struct{}

func storeOf(c *sdk.Client, table, endpoint string) ledgertest.Store {
	l := dynamodb.New(c, table, nil)
	done := table + effects
	return ledgertest.Store{
		Ledger: l, Get: l.Get, DSN: endpoint + "|" + table,
		Declare: l.Declare, Drop: l.Drop, DropOwner: l.DropOwner, Rest: l.Rest,
		Age:      func(_ context.Context, d time.Duration) error { l.Age(d); return nil },
		InTxMost: 45,
		InTx: func(ctx context.Context, fn func(context.Context) error) error {
			return dynamodb.InTx(ctx, func(ctx context.Context, tx *dynamodb.Tx) error {
				return fn(context.WithValue(ctx, txKey{}, tx))
			})
		},
		Effect: func(ctx context.Context, id string) error {
			ctx.Value(txKey{}).(*dynamodb.Tx).Add(types.TransactWriteItem{Put: &types.Put{TableName: &done, Item: map[string]types.AttributeValue{
				"id": &types.AttributeValueMemberS{Value: id}, "n": &types.AttributeValueMemberS{Value: uuid.NewString()}}}})
			return nil
		},
		Effects: func(ctx context.Context) (map[string]int, error) {
			out := map[string]int{}
			for p := sdk.NewScanPaginator(c, &sdk.ScanInput{TableName: &done, ConsistentRead: aws.Bool(true)}); p.HasMorePages(); {
				page, err := p.NextPage(ctx)
				if err != nil {
					return nil, err
				}
				for _, i := range page.Items {
					out[i["id"].(*types.AttributeValueMemberS).Value]++
				}
			}
			return out, nil
		},
	}
}

func open(t *testing.T) ledgertest.Store {
	t.Helper()
	c := client(t)
	return storeOf(c, fresh(t, c), services.DynamoDB(t))
}

// openAgain opens the ledger of a test in a second process.
func openAgain(ctx context.Context, dsn string) (ledgertest.Store, io.Closer, error) {
	endpoint, table, _ := strings.Cut(dsn, "|")
	c, way, err := connect(ctx, endpoint, dynamodbtest.Options{})
	if err != nil {
		return ledgertest.Store{}, nil, err
	}
	return storeOf(c, table, endpoint), closer(way.Close), nil
}

type closer func()

func (c closer) Close() error { c(); return nil }
