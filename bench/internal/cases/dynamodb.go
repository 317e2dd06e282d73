package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

const (
	dynamoGroup = "dynamodb"
	// dynamoBatch is how many messages are claimed at once, in requests of 25.
	dynamoBatch = 200
	// dynamoHandlers is how many handlers run at once where messages go one by one.
	dynamoHandlers = 32
)

func dynamoCases() []suite.Case {
	n, single := suite.Size{Full: 40_000, Quick: 4000, Smoke: 400}, suite.Size{Full: 6000, Quick: 1000, Smoke: 64}
	queue := suite.Size{Full: 20_000, Quick: 2000, Smoke: 100}
	return []suite.Case{
		{Group: dynamoGroup, Name: "bare loop", N: n, Run: dynamoBareLoop,
			Note: "BatchExecuteStatement of 25 conditional INSERTs (owner, token, state), then of 25 conditional UPDATEs to succeeded, in 4 batches of 200 " +
				"messages; no lease, no retries, no dead letters"},
		{Group: dynamoGroup, Name: "ours, claim and settle", N: n, Run: dynamoOurs(queued),
			Note: "the same batches of the same messages, claimed and settled by an owner of ledger/dynamodb"},
		{Group: dynamoGroup, Name: "ours, records of Kafka", N: n, Run: dynamoOurs(newEntries),
			Note: "the same of records, whose rows are found by offset: a mark for each 128 of a partition"},
		{Group: dynamoGroup, Name: "Powertools' pattern", N: single, Run: dynamoPowertools,
			Note: "PutItem if it is not there, then UpdateItem, a request each, 32 at once; the update is without a condition, as there"},
		{Group: dynamoGroup, Name: "ours, one by one", N: single, Run: dynamoOneByOne(func(o ledger.Owner) ledger.Owner { return o }),
			Note: "a claim and a settlement each, 32 at once, by the owner that Join returns: what comes together shares requests"},
		{Group: dynamoGroup, Name: "ours, one by one, not grouped", N: single, Run: dynamoOneByOne(ledger.Ungroup),
			Note: "the same, a request each"},
		{Group: dynamoGroup, Name: "by hand, one write", N: single, Run: dynamoByHand,
			Note: "TransactWriteItems of the key if it is not there and of the effect, 32 at once; no claim, no fence, no retries, no dead letters"},
		{Group: dynamoGroup, Name: "by hand, a claim, one write", N: single, Run: dynamoClaimByHand,
			Note: "PutItem if it is not there, then TransactWriteItems of its success, if it is claimed still, and of the effect, 32 at once"},
		{Group: dynamoGroup, Name: "ours, InTx, one write", N: single, Run: dynamoInTx,
			Note: "claims of 200 at once, as a worker makes them, then dynamodb.InTx with the effect: TransactWriteItems of the message and the effect, 32 at once"},
		{Group: dynamoGroup, Name: "SQS, bare loop", N: queue, Run: dynamoQueueBare,
			Note: "sqstest 0 ms, in the same process; 10 loops of ReceiveMessage (10), the statements of the bare loop, DeleteMessageBatch"},
		{Group: dynamoGroup, Name: "SQS, ours", N: queue, Note: "sqstest 0 ms, in the same process; default settings, no-op handler",
			Run: sqsOurs(stub(0), func(ctx context.Context, r *suite.Run) (ledger.Ledger, error) {
				d, err := freshDynamo(ctx, r)
				if err != nil {
					return nil, err
				}
				return dynamodb.New(d.client, d.table, nil), nil
			})},
	}
}

// dynamo is a server with a fresh table, and one of effects.
type dynamo struct {
	client         *sdk.Client
	table, effects string
}

// freshDynamo starts Dynoxide, or takes the server that the environment names, once, and makes tables that are dropped after the run.
func freshDynamo(ctx context.Context, r *suite.Run) (*dynamo, error) {
	endpoint, err := suite.Once(r.All, "DynamoDB", func() (string, func() error, error) {
		if named := os.Getenv(services.EnvDynamoDB); named != "" {
			r.All.Note("DynamoDB", "the server named in "+services.EnvDynamoDB)
			return named, nil, nil
		}
		server, err := services.StartDynamoDBInMemory(ctx)
		if err != nil {
			return "", nil, err
		}
		r.All.Note("DynamoDB", "Dynoxide in memory, of the version in internal/services/dynoxide/package.json")
		return server.Endpoint(), server.Close, nil
	})
	if err != nil {
		return nil, err
	}
	if endpoint == dynamodbtest.AWS {
		return nil, fmt.Errorf("%s=aws: the benchmark does not run on AWS", services.EnvDynamoDB)
	}
	way := newOneClause()
	r.Cleanup(func() error { way.CloseIdleConnections(); return nil })
	client, err := dynamodbtest.Connect(ctx, endpoint, func(o *sdk.Options) { o.HTTPClient = way })
	if err != nil {
		return nil, err
	}
	d := &dynamo{client: client, table: fmt.Sprintf("bench-%d", time.Now().UnixNano())}
	d.effects = d.table + "-effects"
	if err := dynamodb.Migrate(ctx, client, d.table); err != nil {
		return nil, err
	}
	_, err = client.CreateTable(ctx, &sdk.CreateTableInput{TableName: &d.effects, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeB}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}})
	r.Cleanup(func() error {
		var failed error
		for _, name := range []string{d.table, d.effects} {
			_, err := client.DeleteTable(context.WithoutCancel(ctx), &sdk.DeleteTableInput{TableName: &name})
			failed = errors.Join(failed, err)
		}
		return failed
	})
	return d, err
}

func blob(b []byte) types.AttributeValue       { return &types.AttributeValueMemberB{Value: b} }
func decimal(text string) types.AttributeValue { return &types.AttributeValueMemberN{Value: text} }

// row is what a team keeps of a message: as many bytes as ours.
func (d *dynamo) row(e *ledger.Entry) map[string]types.AttributeValue {
	sum := e.Key.Sum()
	return map[string]types.AttributeValue{"k": blob(sum[:]), "r": blob([]byte("m")), "v": blob(sum[:8]), "n": blob([]byte(e.Key.Scope)),
		"i": blob(e.Key.ID), "f": blob(e.Fingerprint[:]), "s": decimal("1"), "t": decimal("1"), "o": decimal("1"),
		"b": decimal("1764288000000000"), "e": decimal("1764374400000000")}
}

// queued are messages of a queue: they have no positions.
func queued(worker, from, n int) []ledger.Entry {
	entries := newEntries(worker, from, n)
	for i := range entries {
		entries[i].Key.Pos = nil
	}
	return entries
}

func dynamoBareLoop(ctx context.Context, r *suite.Run) (suite.Result, error) {
	d, err := freshDynamo(ctx, r)
	if err != nil {
		return nil, err
	}
	return batchesOf(ctx, dynamoBatch, r.N, func(ctx context.Context, worker, from, n int) error {
		return d.byHand(ctx, queued(worker, from, n))
	})
}

// byHand inserts messages that must be new, and then makes them succeeded.
func (d *dynamo) byHand(ctx context.Context, entries []ledger.Entry) error {
	insert := aws.String(`INSERT INTO "` + d.table + `" VALUE {'k':?,'r':?,'v':?,'n':?,'i':?,'f':?,'s':?,'t':?,'o':?,'b':?,'e':?}`)
	update := aws.String(`UPDATE "` + d.table + `" SET "s"=? SET "v"=? SET "x"=? REMOVE "o" WHERE "k"=? AND "r"=? AND "v"=?`)
	claims, ends := make([]types.BatchStatementRequest, len(entries)), make([]types.BatchStatementRequest, len(entries))
	for i := range entries {
		e := d.row(&entries[i])
		claims[i] = types.BatchStatementRequest{Statement: insert,
			Parameters: []types.AttributeValue{e["k"], e["r"], e["v"], e["n"], e["i"], e["f"], e["s"], e["t"], e["o"], e["b"], e["e"]}}
		ends[i] = types.BatchStatementRequest{Statement: update,
			Parameters: []types.AttributeValue{decimal("2"), blob([]byte("settled!")), decimal("1764374400"), e["k"], e["r"], e["v"]}}
	}
	if err := d.statements(ctx, claims); err != nil {
		return err
	}
	return d.statements(ctx, ends)
}

// statements carries out statements in requests of 25, all at once; each must hold.
func (d *dynamo) statements(ctx context.Context, all []types.BatchStatementRequest) error {
	g, ctx := errgroup.WithContext(ctx)
	for len(all) > 0 {
		part := all[:min(25, len(all))]
		all = all[len(part):]
		g.Go(func() error {
			out, err := d.client.BatchExecuteStatement(ctx, &sdk.BatchExecuteStatementInput{Statements: part})
			if err != nil {
				return err
			}
			for _, answer := range out.Responses {
				if e := answer.Error; e != nil {
					return fmt.Errorf("%s: %s", e.Code, aws.ToString(e.Message))
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func dynamoOurs(messages func(worker, from, n int) []ledger.Entry) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		d, err := freshDynamo(ctx, r)
		if err != nil {
			return nil, err
		}
		return joined(ctx, dynamodb.New(d.client, d.table, nil), func(o ledger.Owner) (suite.Result, error) {
			return batchesOf(ctx, dynamoBatch, r.N, func(ctx context.Context, worker, from, n int) error {
				return claimAndSettle(ctx, ledger.Unwrap(o), messages(worker, from, n))
			})
		})
	}
}

// oneByOne calls do for n messages, by so many handlers at once.
func oneByOne(ctx context.Context, n int, do func(ctx context.Context, e *ledger.Entry) error) (suite.Result, error) {
	each := max(n/dynamoHandlers, 1)
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for h := range dynamoHandlers {
		g.Go(func() error {
			for from := range each {
				if err := do(ctx, &queued(h, from, 1)[0]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return suite.Throughput(each*dynamoHandlers, time.Since(begin)), err
}

func dynamoOneByOne(as func(ledger.Owner) ledger.Owner) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		d, err := freshDynamo(ctx, r)
		if err != nil {
			return nil, err
		}
		return joined(ctx, dynamodb.New(d.client, d.table, nil), func(o ledger.Owner) (suite.Result, error) {
			o = as(o)
			return oneByOne(ctx, r.N, func(ctx context.Context, e *ledger.Entry) error {
				return claimAndSettle(ctx, o, []ledger.Entry{*e})
			})
		})
	}
}

// claim is the put of a message that must be new.
func (d *dynamo) claim(row map[string]types.AttributeValue) *types.Put {
	return &types.Put{TableName: &d.table, Item: row, ConditionExpression: aws.String("attribute_not_exists(k)")}
}

func (d *dynamo) claimAlone(ctx context.Context, row map[string]types.AttributeValue) error {
	put := d.claim(row)
	_, err := d.client.PutItem(ctx, &sdk.PutItemInput{TableName: put.TableName, Item: put.Item, ConditionExpression: put.ConditionExpression})
	return err
}

func dynamoPowertools(ctx context.Context, r *suite.Run) (suite.Result, error) {
	d, err := freshDynamo(ctx, r)
	if err != nil {
		return nil, err
	}
	return oneByOne(ctx, r.N, func(ctx context.Context, e *ledger.Entry) error {
		row := d.row(e)
		if err := d.claimAlone(ctx, row); err != nil {
			return err
		}
		_, err := d.client.UpdateItem(ctx, &sdk.UpdateItemInput{TableName: &d.table, Key: map[string]types.AttributeValue{"k": row["k"], "r": row["r"]},
			UpdateExpression:          aws.String("SET s = :s, x = :x"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":s": decimal("2"), ":x": decimal("1764374400")}})
		return err
	})
}

// effect is the handler's own write.
func (d *dynamo) effect(e *ledger.Entry) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &d.effects, Item: map[string]types.AttributeValue{"id": blob(e.Key.ID)}}}
}

func (d *dynamo) transact(ctx context.Context, items ...types.TransactWriteItem) error {
	_, err := d.client.TransactWriteItems(ctx, &sdk.TransactWriteItemsInput{TransactItems: items})
	return err
}

func dynamoByHand(ctx context.Context, r *suite.Run) (suite.Result, error) {
	d, err := freshDynamo(ctx, r)
	if err != nil {
		return nil, err
	}
	return oneByOne(ctx, r.N, func(ctx context.Context, e *ledger.Entry) error {
		return d.transact(ctx, types.TransactWriteItem{Put: d.claim(d.row(e))}, d.effect(e))
	})
}

func dynamoClaimByHand(ctx context.Context, r *suite.Run) (suite.Result, error) {
	d, err := freshDynamo(ctx, r)
	if err != nil {
		return nil, err
	}
	return oneByOne(ctx, r.N, func(ctx context.Context, e *ledger.Entry) error {
		row := d.row(e)
		if err := d.claimAlone(ctx, row); err != nil {
			return err
		}
		was := map[string]types.AttributeValue{":v": row["v"]}
		row["s"], row["v"], row["x"] = decimal("2"), blob([]byte("settled!")), decimal("1764374400")
		delete(row, "o")
		return d.transact(ctx, types.TransactWriteItem{Put: &types.Put{TableName: &d.table, Item: row, ConditionExpression: aws.String("v = :v"),
			ExpressionAttributeValues: was}}, d.effect(e))
	})
}

func dynamoInTx(ctx context.Context, r *suite.Run) (suite.Result, error) {
	d, err := freshDynamo(ctx, r)
	if err != nil {
		return nil, err
	}
	return joined(ctx, dynamodb.New(d.client, d.table, nil), func(o ledger.Owner) (suite.Result, error) {
		return batchesOf(ctx, dynamoBatch, r.N, func(ctx context.Context, worker, from, n int) error {
			entries := queued(worker, from, n)
			claims, err := ledger.Ungroup(o).Claim(ctx, entries)
			if err != nil {
				return err
			}
			handlers, ctx := errgroup.WithContext(ctx)
			handlers.SetLimit(dynamoHandlers / batchers)
			for i, c := range claims {
				if c.Answer != ledger.Run {
					return errors.Join(fmt.Errorf("claim of the new message %s: %v", entries[i].Key, c.Answer), c.Err, handlers.Wait())
				}
				handlers.Go(func() error {
					return dynamodb.InTx(ledger.WithAttempt(ctx, ledger.NewAttempt(o, c.Ticket)), func(_ context.Context, tx *dynamodb.Tx) error {
						tx.Add(d.effect(&entries[i]))
						return nil
					})
				})
			}
			return handlers.Wait()
		})
	})
}
