package dynamodbtest_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// bill is a table on a real server, with a sparse index on the attribute failed, behind a transport that counts.
type bill struct {
	*testing.T
	client *dynamodb.Client
	faulty *dynamodbtest.Transport
	table  *string
}

func newBill(t *testing.T) *bill {
	t.Helper()
	b := &bill{T: t, table: aws.String(services.Name(t))}
	var err error
	b.client, err = dynamodbtest.Connect(t.Context(), services.DynamoDB(t), func(o *dynamodb.Options) {
		b.faulty, err = dynamodbtest.New(dynamodbtest.Options{Capacity: true, Credentials: o.Credentials, Region: o.Region})
		if err != nil {
			t.Fatal(err)
		}
		o.HTTPClient = &http.Client{Transport: b.faulty}
	})
	b.must(err)
	t.Cleanup(b.faulty.Close)
	key := func(name string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: aws.String(name), KeyType: types.KeyTypeHash}}
	}
	_, err = b.client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: b.table, BillingMode: types.BillingModePayPerRequest, KeySchema: key("id"),
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("failed"), AttributeType: types.ScalarAttributeTypeS},
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("failed"), KeySchema: key("failed"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	b.must(err)
	t.Cleanup(func() {
		if _, err := b.client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: b.table}); err != nil {
			t.Error(err)
		}
	})
	b.must(dynamodb.NewTableExistsWaiter(b.client).Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: b.table}, 5*time.Minute))
	return b
}

func (b *bill) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// costs does something and wants it to cost so many units; what the server says of it, if it says something, must be the same.
func (b *bill) costs(what string, want dynamodbtest.Units, do func() (says []types.ConsumedCapacity, err error)) {
	b.Helper()
	before := b.faulty.Usage()
	says, err := do()
	if err != nil {
		b.Errorf("%s: %v", what, err)
	}
	after := b.faulty.Usage()
	got, was := after.Total(), before.Total()
	got = dynamodbtest.Units{Write: got.Write - was.Write, IndexWrite: got.IndexWrite - was.IndexWrite, Read: got.Read - was.Read}
	if got != want || after.Uncounted > 0 {
		b.Errorf("%s: costs %+v, want %+v; %d uncounted", what, got, want, after.Uncounted)
	}
	sum, all := 0.0, want.Write+want.IndexWrite+want.Read
	for _, c := range says {
		sum += aws.ToFloat64(c.CapacityUnits)
	}
	if len(says) > 0 && sum != all {
		b.Errorf("%s: the server says %g units, counted are %g", what, sum, all)
	}
}

func one(c *types.ConsumedCapacity) ([]types.ConsumedCapacity, error) {
	if c == nil {
		return nil, nil
	}
	return []types.ConsumedCapacity{*c}, nil
}

const indexes = types.ReturnConsumedCapacityIndexes

func (b *bill) put(id string, bytes int) ([]types.ConsumedCapacity, error) {
	i := attributes{"id": text(id), "body": text(strings.Repeat("b", bytes))}
	out, err := b.client.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: b.table, Item: i, ReturnConsumedCapacity: indexes})
	b.must(err)
	return one(out.ConsumedCapacity)
}

func (b *bill) update(id, expression string, values attributes) ([]types.ConsumedCapacity, error) {
	out, err := b.client.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{
		TableName: b.table, Key: attributes{"id": text(id)}, UpdateExpression: &expression, ExpressionAttributeValues: values,
		ConditionExpression: aws.String("attribute_exists(id)"), ReturnConsumedCapacity: indexes,
	})
	if err != nil {
		return nil, err
	}
	return one(out.ConsumedCapacity)
}

func TestCapacityOfSingleRequests(t *testing.T) {
	t.Parallel()
	b := newBill(t)
	b.costs("a new item", dynamodbtest.Units{Write: 1}, func() ([]types.ConsumedCapacity, error) { return b.put("a", 100) })
	b.costs("a larger one over it", dynamodbtest.Units{Write: 3}, func() ([]types.ConsumedCapacity, error) { return b.put("a", 2500) })
	b.costs("a smaller one over that", dynamodbtest.Units{Write: 3}, func() ([]types.ConsumedCapacity, error) { return b.put("a", 10) })
	b.costs("into the index", dynamodbtest.Units{Write: 1, IndexWrite: 1}, func() ([]types.ConsumedCapacity, error) {
		return b.update("a", "SET failed = :f", attributes{":f": text("x")})
	})
	b.costs("within the index", dynamodbtest.Units{Write: 1, IndexWrite: 2}, func() ([]types.ConsumedCapacity, error) {
		return b.update("a", "SET failed = :f", attributes{":f": text("y")})
	})
	b.costs("beside the index", dynamodbtest.Units{Write: 1}, func() ([]types.ConsumedCapacity, error) {
		return b.update("a", "SET n = :n", attributes{":n": number})
	})
	b.costs("a failed condition", dynamodbtest.Units{Write: 1}, func() ([]types.ConsumedCapacity, error) {
		if _, err := b.update("none", "SET n = :n", attributes{":n": number}); code(err) != "ConditionalCheckFailedException" {
			t.Errorf("want a failed condition, got %v", err)
		}
		return nil, nil
	})
	_, err := b.put("large", 9000)
	b.must(err)
	for strong, want := range map[bool]float64{true: 3, false: 1.5} {
		b.costs("a read", dynamodbtest.Units{Read: want}, func() ([]types.ConsumedCapacity, error) {
			out, err := b.client.GetItem(t.Context(), &dynamodb.GetItemInput{
				TableName: b.table, Key: attributes{"id": text("large")}, ConsistentRead: &strong, ReturnConsumedCapacity: indexes,
			})
			b.must(err)
			return one(out.ConsumedCapacity)
		})
	}
	// What is left out of the answer is paid for all the same (API reference, GetItem). Dynoxide 1.2.1 says otherwise.
	b.costs("a part of an item", dynamodbtest.Units{Read: 1.5}, func() ([]types.ConsumedCapacity, error) {
		_, err := b.client.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: b.table, Key: attributes{"id": text("large")}, ProjectionExpression: aws.String("id"),
		})
		return nil, err
	})
	b.costs("a query", dynamodbtest.Units{Read: 3}, func() ([]types.ConsumedCapacity, error) {
		out, err := b.client.Query(t.Context(), &dynamodb.QueryInput{
			TableName: b.table, KeyConditionExpression: aws.String("id = :i"), ExpressionAttributeValues: attributes{":i": text("large")},
			ProjectionExpression: aws.String("id"), ConsistentRead: aws.Bool(true),
		})
		b.must(err)
		return one(out.ConsumedCapacity)
	})
	b.costs("a removal", dynamodbtest.Units{Write: 1, IndexWrite: 1}, func() ([]types.ConsumedCapacity, error) {
		out, err := b.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: b.table, Key: attributes{"id": text("a")}, ReturnConsumedCapacity: indexes})
		b.must(err)
		return one(out.ConsumedCapacity)
	})
}

// insert is a statement that inserts an item with a body of so many bytes.
func (b *bill) insert(id string, bytes int) types.BatchStatementRequest {
	return types.BatchStatementRequest{
		Statement:  aws.String(fmt.Sprintf(`INSERT INTO "%s" VALUE {'id': ?, 'body': ?}`, *b.table)),
		Parameters: []types.AttributeValue{text(id), text(strings.Repeat("b", bytes))},
	}
}

func (b *bill) updated(id, expect string) types.BatchStatementRequest {
	return types.BatchStatementRequest{
		Statement:  aws.String(fmt.Sprintf(`UPDATE "%s" SET n = 1 WHERE id = ? AND body = ?`, *b.table)),
		Parameters: []types.AttributeValue{text(id), text(expect)},
	}
}

func (b *bill) batch(want string, statements ...types.BatchStatementRequest) func() ([]types.ConsumedCapacity, error) {
	return func() ([]types.ConsumedCapacity, error) {
		out, err := b.client.BatchExecuteStatement(b.Context(), &dynamodb.BatchExecuteStatementInput{Statements: statements, ReturnConsumedCapacity: indexes})
		b.must(err)
		var got []string
		for _, r := range out.Responses {
			if r.Error == nil {
				got = append(got, "ok")
				continue
			}
			got = append(got, string(r.Error.Code))
		}
		if text := strings.Join(got, " "); text != want {
			b.Errorf("the batch is answered with %s, want %s", text, want)
		}
		return out.ConsumedCapacity, nil
	}
}

func TestCapacityOfBatches(t *testing.T) {
	t.Parallel()
	b := newBill(t)
	b.costs("inserts", dynamodbtest.Units{Write: 1 + 3 + 1 + 3}, b.batch("ok ok ok ok",
		b.insert("a", 10), b.insert("b", 2500), b.insert("d", 10), b.insert("e", 2500)))
	b.costs("and failures", dynamodbtest.Units{Write: 1 + 3 + 2 + 1 + 3 + 1}, b.batch(
		"ok DuplicateItem DuplicateItem ok ConditionalCheckFailed ConditionalCheckFailed",
		b.insert("c", 10), b.insert("b", 10), b.insert("a", 1500),
		b.updated("d", strings.Repeat("b", 10)), b.updated("e", "other"), b.updated("none", "")))
}

func TestCapacityOfTransactions(t *testing.T) {
	t.Parallel()
	b := newBill(t)
	_, err := b.put("a", 2500)
	b.must(err)
	key := attributes{"id": text("a")}
	input := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String(rand.Text()), ReturnConsumedCapacity: indexes,
		TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: b.table, Item: attributes{"id": text("b"), "failed": text("x")}}},
			{Update: &types.Update{
				TableName: b.table, Key: key, UpdateExpression: aws.String("SET n = :n"), ExpressionAttributeValues: attributes{":n": number},
			}},
			{ConditionCheck: &types.ConditionCheck{
				TableName: b.table, Key: attributes{"id": text("c")}, ConditionExpression: aws.String("attribute_not_exists(id)"),
			}},
		},
	}
	write := func() ([]types.ConsumedCapacity, error) {
		out, err := b.client.TransactWriteItems(t.Context(), input)
		b.must(err)
		return out.ConsumedCapacity, nil
	}
	b.costs("a transaction", dynamodbtest.Units{Write: 2 * (1 + 3 + 1), IndexWrite: 1}, write)
	b.costs("the same again", dynamodbtest.Units{Read: 2 * 3}, write)
	b.costs("a transaction that reads", dynamodbtest.Units{Read: 2}, func() ([]types.ConsumedCapacity, error) {
		out, err := b.client.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{
			ReturnConsumedCapacity: indexes, TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: b.table, Key: key}}},
		})
		b.must(err)
		return out.ConsumedCapacity, nil
	})
}
