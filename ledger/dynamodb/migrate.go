package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// tableWait bounds how long Migrate waits for a new table.
const tableWait = 5 * time.Minute

// Migrate makes the ledger's table, if it is not there: with on-demand capacity, two indexes, removal by TTL, encryption at
// rest by a key that AWS owns, and point-in-time recovery where the service has it. A table that is there is checked, and left as it is, but for TTL. It may be called any number of times and at once; the permissions that it
// needs are in docs/dynamodb.md.
//
// Errors: one for which [ledger.Unusable] is true if a table of that name is no ledger, or may not be made.
func Migrate(ctx context.Context, client *sdk.Client, table string) error {
	if err := migrate(ctx, client, table); err != nil {
		return fmt.Errorf("ledger/dynamodb: migrate %s: %w", table, err)
	}
	return nil
}

func migrate(ctx context.Context, client *sdk.Client, table string) error {
	_, err := client.CreateTable(ctx, newTable(table))
	if _, there := errors.AsType[*types.ResourceInUseException](err); err != nil && !there {
		return readError(err)
	}
	wait := sdk.NewTableExistsWaiter(client, func(o *sdk.TableExistsWaiterOptions) { o.MinDelay, o.MaxDelay = 100*time.Millisecond, 5*time.Second })
	if err := wait.Wait(ctx, &sdk.DescribeTableInput{TableName: &table}, tableWait); err != nil {
		return err
	}
	if err := check(ctx, client, table); err != nil {
		return err
	}
	ttl, err := client.DescribeTimeToLive(ctx, &sdk.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return readError(err)
	}
	if ttl.TimeToLiveDescription == nil || ttl.TimeToLiveDescription.TimeToLiveStatus == types.TimeToLiveStatusDisabled {
		if _, err := client.UpdateTimeToLive(ctx, &sdk.UpdateTimeToLiveInput{TableName: &table,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(items.TTL), Enabled: aws.Bool(true)}}); err != nil {
			return readError(err)
		}
	}
	_, err = client.UpdateContinuousBackups(ctx, &sdk.UpdateContinuousBackupsInput{TableName: &table,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
	if code(err) == "UnknownOperationException" { // an emulator has no backups
		err = nil
	}
	return readError(err)
}

// newTable is the ledger's table.
func newTable(table string) *sdk.CreateTableInput {
	attribute := func(names ...string) (list []types.AttributeDefinition) {
		for _, n := range names {
			list = append(list, types.AttributeDefinition{AttributeName: aws.String(n), AttributeType: types.ScalarAttributeTypeB})
		}
		return list
	}
	return &sdk.CreateTableInput{TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: attribute(items.Place, items.Sort, items.Dead.Place, items.Dead.Sort, items.ByID.Place), KeySchema: schemaOf(own),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{global(items.Dead), global(items.ByID)}}
}

func global(i *items.Index) types.GlobalSecondaryIndex {
	return types.GlobalSecondaryIndex{IndexName: &i.Name, KeySchema: schemaOf(i), Projection: &types.Projection{
		ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: i.Keeps}}
}

func schemaOf(i *items.Index) []types.KeySchemaElement {
	return []types.KeySchemaElement{{AttributeName: &i.Place, KeyType: types.KeyTypeHash}, {AttributeName: &i.Sort, KeyType: types.KeyTypeRange}}
}

// check makes sure that a table is a ledger's, and one on which conditions hold.
func check(ctx context.Context, client *sdk.Client, table string) error {
	out, err := client.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: &table})
	if err != nil {
		return readError(err)
	}
	t, want := out.Table, newTable(table)
	if !sameSchema(t.KeySchema, want.KeySchema) {
		return ledger.MarkUnusable(errors.New("the table is no ledger: its key is another one"))
	}
	for _, w := range want.GlobalSecondaryIndexes {
		found := false
		for _, g := range t.GlobalSecondaryIndexes {
			found = found || aws.ToString(g.IndexName) == *w.IndexName && sameSchema(g.KeySchema, w.KeySchema)
		}
		if !found {
			return ledger.MarkUnusable(fmt.Errorf("the table is no ledger: it lacks the index %q", *w.IndexName))
		}
	}
	if len(t.Replicas) > 0 && t.MultiRegionConsistency != types.MultiRegionConsistencyStrong {
		return ledger.MarkUnusable(fmt.Errorf("it is a global table with %d replicas and the last writer winning, on which two owners may "+
			"get one message: use one region, or multi-Region strong consistency", len(t.Replicas)))
	}
	return nil
}

func sameSchema(a, b []types.KeySchemaElement) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if aws.ToString(a[i].AttributeName) != aws.ToString(b[i].AttributeName) || a[i].KeyType != b[i].KeyType {
			return false
		}
	}
	return true
}
