package dynamodb

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// query asks for items of one place, in the order of what they are sorted by.
type query struct {
	place string
	start string // what they begin with; or
	from  string // from <= sort
	to    string // sort < to; empty: to the end
	keys  bool   // their names alone
	down  bool   // the last ones first
	limit int    // of a page; 0: as much as comes
	index *index // asks an index, which lags behind a little, instead of the table
}

// index is a global secondary index.
type index struct{ name, place, sort string }

// The indexes.
var (
	indexDead = &index{"dead", attrShard, attrMoment}  // dead letters by time, and the past by its end
	indexByID = &index{"by-id", attrByID, attrPlace}   // what is found by a message's id
	tableKey  = &index{"", attrPlace, attrSort}        // the table itself
	upperEnd  = string([]byte{0xff, 0xff, 0xff, 0xff}) // above all that anything is sorted by
)

func (q *query) input(table string) *sdk.QueryInput {
	by := tableKey
	in := &sdk.QueryInput{TableName: &table, ConsistentRead: aws.Bool(q.index == nil), ScanIndexForward: aws.Bool(!q.down)}
	if q.index != nil {
		by, in.IndexName = q.index, aws.String(q.index.name)
	}
	in.ExpressionAttributeValues = item{":k": blob(q.place)}
	condition := by.place + " = :k"
	switch {
	case q.start != "":
		condition += " AND begins_with(" + by.sort + ", :a)"
		in.ExpressionAttributeValues[":a"] = blob(q.start)
	case q.from != "" || q.to != "":
		condition += " AND " + by.sort + " BETWEEN :a AND :b"
		in.ExpressionAttributeValues[":a"] = blob(q.from)
		if q.from == "" {
			in.ExpressionAttributeValues[":a"] = blob("\x00")
		}
		in.ExpressionAttributeValues[":b"] = blob(upperEnd)
		if q.to != "" {
			in.ExpressionAttributeValues[":b"] = blob(q.to)
		}
	}
	in.KeyConditionExpression = &condition
	if q.keys {
		in.ProjectionExpression = aws.String(attrPlace + "," + attrSort)
	}
	if q.limit > 0 {
		in.Limit = aws.Int32(int32(q.limit))
	}
	return in
}

// all yields what a query finds, page by page. The bound to is not part of it.
func (s *store) all(ctx context.Context, q *query) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		in := q.input(s.table)
		by := tableKey
		if q.index != nil {
			by = q.index
		}
		for {
			var out *sdk.QueryOutput
			err := s.ask(ctx, func(ctx context.Context) (err error) {
				out, err = s.db.Query(ctx, in, once)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, i := range out.Items {
				if q.to != "" && string(getBytes(i, by.sort)) == q.to {
					continue
				}
				if !yield(i, nil) {
					return
				}
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
				return
			}
		}
	}
}

// collect are the first items of a query, at most so many.
func (s *store) collect(ctx context.Context, q *query, most int) (list []item, err error) {
	if q.limit == 0 {
		q.limit = most
	}
	for i, err := range s.all(ctx, q) {
		if err != nil {
			return nil, err
		}
		if list = append(list, i); len(list) == most {
			break
		}
	}
	return list, nil
}

// writeRequests puts and removes items without condition.
func (s *store) writeRequests(ctx context.Context, requests []types.WriteRequest) error {
	for part := range slices.Chunk(requests, batchMost) {
		for n := 0; len(part) > 0; n++ {
			var out *sdk.BatchWriteItemOutput
			err := s.send(ctx, func(ctx context.Context) (err error) {
				out, err = s.db.BatchWriteItem(ctx, &sdk.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.table: part}}, once)
				return err
			})
			if err != nil {
				return writeError(err)
			}
			if part = out.UnprocessedItems[s.table]; len(part) > 0 && rest(ctx, n) != nil {
				return busy(ctx, ErrThrottled)
			}
		}
	}
	return nil
}

// keysOf are the keys of a map, sorted.
func keysOf[V any](m map[name]V) []name { return slices.SortedFunc(maps.Keys(m), name.compare) }
