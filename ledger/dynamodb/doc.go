// Package dynamodb keeps a ledger in a table of Amazon DynamoDB, for workers that have no PostgreSQL beside their queue.
//
//	if err := dynamodb.Migrate(ctx, client, table); err != nil { // once, before the deploy
//		return err
//	}
//	l := dynamodb.New(client, table, nil) // one a process
//
//	charge := func(ctx context.Context) error { // in a handler
//		return dynamodb.InTx(ctx, func(_ context.Context, tx *dynamodb.Tx) error {
//			tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: &payments, Item: payment}})
//			return nil
//		})
//	}
//
// [Migrate] makes the table, and [New] returns the ledger. [Ledger.Check] says at the start whether the table can be used. [InTx] commits
// a handler's own writes together with its message's success.
//
// # How it holds its promises without a server's clock
//
// Package items says it: every write is on the condition that the item is as it was read, and peers watch each other's beats, each by
// its own monotonic clock. This package has what is DynamoDB's: batches of PartiQL statements, transactions with a client's token,
// throttling, the table and its indexes.
//
// Windows, delays and expiries go by the machine's clock, set right by the Date of the service's answers. Nothing hangs on
// them but when something is tried again, and how long it is remembered.
//
// # One message a call
//
// The owner that Join returns makes batches of calls that come at once ([ledger.Group]): eight of claims and eight of settlements are
// under way, and what is asked meanwhile goes with the next, 25 statements a request. Up to eight wait for nobody, and no call waits
// for a clock. Each keeps its own deadline. Workers go past it, since their calls are batches already; [InTx] is a request of its own.
//
// # Connections
//
// A process has up to 64 requests under way, 16 of them for one call. The SDK's HTTP client keeps ten idle connections to a host by
// default (MaxIdleConnsPerHost of aws/transport/http) and opens others anew, with a TLS handshake each: at 1,000 claims a call, every
// sixth request waits for one. A client for a busy worker keeps them all:
//
//	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 64 })
//	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
//
// # What differs from other stores
//
// Reads of several rows are each of its own moment. Lists of messages scan the table, so they cost what the table is large;
// dead letters have an index, which is a moment behind. Rows that are finished go by TTL, hours or days after their window,
// and are recognised until then. Counts of messages are as of the last sweep.
//
// It was tested on a server that speaks its protocol (Dynoxide), with faults on the way to it. It has not run on AWS.
package dynamodb
