package dynamodb

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Setup is how a ledger's table is set up.
type Setup struct {
	Status    string            // ACTIVE: it can be used
	Indexes   map[string]string // their status, by name
	OnDemand  bool              // else capacity is provisioned
	TTL       bool              // what is over goes by itself
	Protected bool              // against being deleted
	// Recovery says whether the table can be restored to a moment of the last 35 days; nil: the service did not say.
	Recovery *bool
	Replicas int // in other regions
}

// Inspect asks how a table is set up. It needs DescribeTable, DescribeTimeToLive and DescribeContinuousBackups. It is for operators' tools,
// and may be called concurrently.
func Inspect(ctx context.Context, client *sdk.Client, table string) (s Setup, err error) {
	out, err := client.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: &table})
	if err != nil {
		return s, fmt.Errorf("ledger/dynamodb: %s: %w", table, readError(err))
	}
	t := out.Table
	s = Setup{Status: string(t.TableStatus), Indexes: map[string]string{}, Protected: aws.ToBool(t.DeletionProtectionEnabled), Replicas: len(t.Replicas),
		OnDemand: t.BillingModeSummary != nil && t.BillingModeSummary.BillingMode == types.BillingModePayPerRequest}
	for _, i := range t.GlobalSecondaryIndexes {
		s.Indexes[aws.ToString(i.IndexName)] = string(i.IndexStatus)
	}
	ttl, err := client.DescribeTimeToLive(ctx, &sdk.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return s, fmt.Errorf("ledger/dynamodb: %s: TTL: %w", table, readError(err))
	}
	if d := ttl.TimeToLiveDescription; d != nil {
		s.TTL = d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling
	}
	backups, err := client.DescribeContinuousBackups(ctx, &sdk.DescribeContinuousBackupsInput{TableName: &table})
	if err != nil {
		return s, nil //nolint:nilerr // an emulator has no backups, and a role need not be allowed to ask
	}
	if d := backups.ContinuousBackupsDescription; d != nil && d.PointInTimeRecoveryDescription != nil {
		s.Recovery = aws.Bool(d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled)
	}
	return s, nil
}
