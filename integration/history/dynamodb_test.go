package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// dynamoTroubles are what goes wrong with requests: a tenth is throttled, some are lost, or their answers; some come when nobody waits
// for them any more, some twice.
var dynamoTroubles = dynamodbtest.Shares{Throttled: 0.1, Parts: 0.03, RequestLost: 0.02, AnswerLost: 0.03, Late: 0.02, Twice: 0.03,
	LateBy: 300 * time.Millisecond, TwiceBy: 300 * time.Millisecond}

// doorDynamo is a way to the ledger in a table of an endpoint ("endpoint|table"), on which things go wrong; it stays open until close.
func doorDynamo(ctx context.Context, dsn string, troubles dynamodbtest.Shares) (d door, closer func(), err error) {
	endpoint, table, _ := strings.Cut(dsn, "|")
	way, err := dynamodbtest.New(dynamodbtest.Options{Seed: rand.Uint64(), Shares: troubles, JoinSets: endpoint != dynamodbtest.AWS})
	if err != nil {
		return door{}, nil, err
	}
	client, err := dynamodbtest.Connect(ctx, endpoint, func(o *sdk.Options) { o.HTTPClient = &http.Client{Transport: way} })
	if err != nil {
		return door{}, nil, err
	}
	l := dynamodb.New(client, table, nil)
	return door{ledger: l, operate: l, limit: hurried(3*time.Second, 15*time.Millisecond),
		declare: func(ctx context.Context, id string) error { return declareDynamo(ctx, client, table, id) }}, way.Close, nil
}

// declareDynamo seals a live owner dead, as a peer does. The owner's process is not told: it goes on until its own lease is over.
func declareDynamo(ctx context.Context, client *sdk.Client, table, owner string) error {
	id, err := strconv.ParseInt(owner, 10, 64)
	if err != nil {
		return err
	}
	n := items.OwnerName(driver.OwnerID(id))
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	_, err = client.UpdateItem(ctx, &sdk.UpdateItemInput{TableName: &table, Key: map[string]types.AttributeValue{
		items.Place: &types.AttributeValueMemberB{Value: []byte(n.Place)}, items.Sort: &types.AttributeValueMemberB{Value: []byte(n.Sort)}},
		UpdateExpression:    aws.String("SET " + items.Fate + " = :dead, " + items.Over + " = :now, " + items.Version + " = :v"),
		ConditionExpression: aws.String(items.Fate + " = :live"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":dead": number(int64(driver.Dead)), ":live": number(int64(driver.Live)),
			":now": number(time.Now().UnixMicro()), ":v": &types.AttributeValueMemberB{Value: fmt.Appendf(nil, "%08x", rand.Uint32())}}},
		func(o *sdk.Options) { o.RetryMaxAttempts = 1 })
	if _, sealed := errors.AsType[*types.ConditionalCheckFailedException](err); sealed {
		return nil
	}
	return err
}

func childDynamo(ctx context.Context, dsn string) (door, error) {
	d, _, err := doorDynamo(ctx, dsn, dynamoTroubles)
	return d, err
}

// newDynamo is a ledger in a table of its own, used by this process and a crew.
func newDynamo(t *testing.T, name string, ranged bool) *site {
	t.Helper()
	dsn := services.DynamoDB(t) + "|" + services.Name(t)
	endpoint, table, _ := strings.Cut(dsn, "|")
	client, err := dynamodbtest.Connect(t.Context(), endpoint)
	if err == nil {
		err = dynamodb.Migrate(t.Context(), client, table)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.WithoutCancel(t.Context()), &sdk.DeleteTableInput{TableName: &table}); err != nil {
			t.Errorf("table %s: %v", table, err)
		}
	})
	calm, closeCalm, err := doorDynamo(t.Context(), dsn, dynamodbtest.Shares{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeCalm)
	calm.limit = func(*rand.Rand) time.Duration { return endLimit }
	d, closer, err := doorDynamo(t.Context(), dsn, dynamoTroubles)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closer)
	return &site{
		name: name, ranged: ranged, snapshots: true, pieces: true, busy: true, watched: true,
		crew: newCrew(t, "dynamodb", func(plan) string { return dsn }, 2*time.Second), open: func(plan) (door, door) { return d, calm },
	}
}

func TestDynamoDB(t *testing.T) {
	t.Parallel()
	newDynamo(t, "dynamodb", false).check(t, histories(t, 30, 10_000))
}

func TestDynamoDBRanged(t *testing.T) {
	t.Parallel()
	newDynamo(t, "dynamodb, ranged", true).check(t, histories(t, 30, 10_000))
}
