package dynamodb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// Bounds of one request.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
const (
	getMost       = 100 // items of BatchGetItem
	batchMost     = 25  // statements of BatchExecuteStatement, and requests of BatchWriteItem
	transactMost  = 100 // items of TransactWriteItems
	itemMost      = 400 << 10
	batchesAtOnce = 16 // of one call
)

// table implements [items.Table].
type table struct {
	db    *sdk.Client
	name  string
	pace  *pace
	clock clock
}

var _ items.Table = (*table)(nil)

// once makes the client send a request once: what is repeated is this package's to decide.
func once(o *sdk.Options) { o.RetryMaxAttempts = 1 }

// readTries is how often a read is sent whose answer breaks off: the client's own retries are not used.
const readTries = 3

// ask sends a request that only reads.
func (t *table) ask(ctx context.Context, request func(context.Context) error) error {
	for n := 1; ; n++ {
		err := t.send(ctx, request)
		if err == nil || code(err) != "" || n == readTries || items.Rest(ctx, n) != nil {
			return readError(err)
		}
	}
}

// send sends a request until it is not throttled any more, or its time is over.
func (t *table) send(ctx context.Context, request func(context.Context) error) error {
	for n := 0; ; n++ {
		if err := t.pace.begin(ctx); err != nil {
			return notSent(err)
		}
		err := request(ctx)
		again := throttled[code(err)]
		t.pace.end(again)
		if !again {
			return err
		}
		if why := items.Rest(ctx, n); why != nil {
			return busy(why, fmt.Errorf("%w: %w", ErrThrottled, err))
		}
	}
}

// Now implements [items.Table].
func (t *table) Now() time.Time { return t.clock.now() }

// Bounds implements [items.Table].
func (t *table) Bounds() items.Bounds {
	return items.Bounds{Item: itemMost, Set: transactMost, Get: getMost}
}

// Get implements [items.Table], by strong reads.
func (t *table) Get(ctx context.Context, names []items.Name) (map[items.Name]items.Item, error) {
	found := make(map[items.Name]items.Item, len(names))
	for part := range slices.Chunk(names, getMost) {
		keys := make([]item, len(part))
		for i, n := range part {
			keys[i] = keyOf(n)
		}
		for n := 0; len(keys) > 0; n++ {
			var out *sdk.BatchGetItemOutput
			err := t.ask(ctx, func(ctx context.Context) (err error) {
				out, err = t.db.BatchGetItem(ctx, &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
					t.name: {Keys: keys, ConsistentRead: aws.Bool(true)}}}, once)
				return err
			})
			if err != nil {
				return nil, err
			}
			t.clock.heard(out.ResultMetadata)
			for _, i := range out.Responses[t.name] {
				is := fromService(i)
				found[items.NameOf(is)] = is
			}
			keys = out.UnprocessedKeys[t.name].Keys
			if len(keys) == 0 {
				break
			}
			if why := items.Rest(ctx, n); why != nil {
				return nil, busy(why, ErrThrottled)
			}
		}
	}
	return found, nil
}

// Any implements [items.Table]: a query each, several at once.
func (t *table) Any(ctx context.Context, places []string) (map[string]bool, error) {
	var mu sync.Mutex
	some := make(map[string]bool, len(places))
	return some, atOnce(places, func(place string) error {
		for _, err := range t.Query(ctx, items.Query{Place: place, Names: true, Most: 1}) {
			mu.Lock()
			defer mu.Unlock()
			some[place] = true
			return err
		}
		return nil
	})
}

// Scan implements [items.Table].
func (t *table) Scan(ctx context.Context, s items.Scan) (page []items.Item, last items.Name, err error) {
	in := &sdk.ScanInput{TableName: &t.name, ConsistentRead: &s.Fresh, Limit: aws.Int32(int32(s.Most)),
		ExpressionAttributeValues: item{":k": blob(s.Place)}}
	var sorts []string
	for i, begin := range s.Sorts {
		value := fmt.Sprintf(":r%d", i)
		in.ExpressionAttributeValues[value] = blob(begin)
		sorts = append(sorts, "begins_with("+items.Sort+", "+value+")")
	}
	in.FilterExpression = aws.String("begins_with(" + items.Place + ", :k) AND (" + strings.Join(sorts, " OR ") + ")")
	if s.Behind != (items.Name{}) {
		in.ExclusiveStartKey = keyOf(s.Behind)
	}
	var out *sdk.ScanOutput
	if err := t.ask(ctx, func(ctx context.Context) (err error) {
		out, err = t.db.Scan(ctx, in, once)
		return err
	}); err != nil {
		return nil, last, err
	}
	for _, i := range out.Items {
		page = append(page, fromService(i))
	}
	if len(out.LastEvaluatedKey) > 0 {
		last = items.NameOf(fromService(out.LastEvaluatedKey))
	}
	return page, last, nil
}

// Put implements [items.Table].
func (t *table) Put(ctx context.Context, list []items.Item) error {
	requests := make([]types.WriteRequest, len(list))
	for i, is := range list {
		requests[i] = types.WriteRequest{PutRequest: &types.PutRequest{Item: toService(is)}}
	}
	return t.writeRequests(ctx, requests)
}

// Delete implements [items.Table].
func (t *table) Delete(ctx context.Context, names []items.Name) error {
	requests := make([]types.WriteRequest, len(names))
	for i, n := range names {
		requests[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: keyOf(n)}}
	}
	return t.writeRequests(ctx, requests)
}

func (t *table) writeRequests(ctx context.Context, requests []types.WriteRequest) error {
	for part := range slices.Chunk(requests, batchMost) {
		for n := 0; len(part) > 0; n++ {
			var out *sdk.BatchWriteItemOutput
			err := t.send(ctx, func(ctx context.Context) (err error) {
				out, err = t.db.BatchWriteItem(ctx, &sdk.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{t.name: part}}, once)
				return err
			})
			if err != nil {
				return writeError(err)
			}
			if part = out.UnprocessedItems[t.name]; len(part) == 0 {
				break
			}
			if why := items.Rest(ctx, n); why != nil {
				return busy(why, ErrThrottled)
			}
		}
	}
	return nil
}

// Add implements [items.Table].
func (t *table) Add(ctx context.Context, n items.Name, sums, first items.Item) (items.Item, error) {
	in := &sdk.UpdateItemInput{TableName: &t.name, Key: keyOf(n), ExpressionAttributeValues: item{}, ReturnValues: types.ReturnValueAllNew}
	var add, set []string
	for _, attr := range items.Attributes(sums) {
		add = append(add, attr+" :"+attr)
		in.ExpressionAttributeValues[":"+attr] = value(sums[attr])
	}
	for _, attr := range items.Attributes(first) {
		set = append(set, attr+" = if_not_exists("+attr+", :"+attr+")")
		in.ExpressionAttributeValues[":"+attr] = value(first[attr])
	}
	update := "ADD " + strings.Join(add, ", ")
	if len(set) > 0 {
		update += " SET " + strings.Join(set, ", ")
	}
	in.UpdateExpression = &update
	var out *sdk.UpdateItemOutput
	if err := t.send(ctx, func(ctx context.Context) (err error) {
		out, err = t.db.UpdateItem(ctx, in, once)
		return err
	}); err != nil {
		return nil, writeError(err)
	}
	t.clock.heard(out.ResultMetadata)
	return fromService(out.Attributes), nil
}

// Sizes implements [items.Table]: the service counts every six hours or so.
func (t *table) Sizes(ctx context.Context) ([]ledger.TableStats, error) {
	out, err := t.db.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: &t.name})
	if err != nil {
		return nil, readError(err)
	}
	return []ledger.TableStats{{Name: t.name, Rows: aws.ToInt64(out.Table.ItemCount), Bytes: aws.ToInt64(out.Table.TableSizeBytes)}}, nil
}
