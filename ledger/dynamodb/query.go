package dynamodb

import (
	"context"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/ackledger/ackledger/ledger/driver/items"
)

// own is the table itself, as an index.
var own = &items.Index{Place: items.Place, Sort: items.Sort}

// upperEnd is above all that anything is sorted by.
const upperEnd = "\xff\xff\xff\xff"

// input is a query as the service takes it. The upper bound is inclusive there.
func (t *table) input(q items.Query) (in *sdk.QueryInput, by *items.Index) {
	by = own
	in = &sdk.QueryInput{TableName: &t.name, ConsistentRead: aws.Bool(q.Index == nil), ScanIndexForward: aws.Bool(!q.Down)}
	if q.Index != nil {
		by, in.IndexName = q.Index, &q.Index.Name
	}
	in.ExpressionAttributeValues = item{":k": blob(q.Place)}
	condition := by.Place + " = :k"
	switch {
	case q.Prefix != "":
		condition += " AND begins_with(" + by.Sort + ", :a)"
		in.ExpressionAttributeValues[":a"] = blob(q.Prefix)
	case q.From != "" || q.To != "":
		condition += " AND " + by.Sort + " BETWEEN :a AND :b"
		from, to := "\x00", upperEnd
		if q.From != "" {
			from = q.From
		}
		if q.To != "" {
			to = q.To
		}
		in.ExpressionAttributeValues[":a"], in.ExpressionAttributeValues[":b"] = blob(from), blob(to)
	}
	in.KeyConditionExpression = &condition
	if q.Names {
		in.ProjectionExpression = aws.String(items.Place + "," + items.Sort)
	}
	if q.Most > 0 {
		in.Limit = aws.Int32(int32(q.Most))
	}
	return in, by
}

// Query implements [items.Table], page by page.
func (t *table) Query(ctx context.Context, q items.Query) iter.Seq2[items.Item, error] {
	return func(yield func(items.Item, error) bool) {
		in, by := t.input(q)
		for {
			var out *sdk.QueryOutput
			err := t.ask(ctx, func(ctx context.Context) (err error) {
				out, err = t.db.Query(ctx, in, once)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, i := range out.Items {
				is := fromService(i)
				if q.To != "" && string(is[by.Sort].Bytes) == q.To {
					continue
				}
				if !yield(is, nil) {
					return
				}
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
				return
			}
		}
	}
}
