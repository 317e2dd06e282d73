package dynamodbtest_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// Writers on a real server, whose requests are throttled, lost, late and doubled: each item is there once, and each kind of fault was met.
func TestFaultsOnARealServer(t *testing.T) {
	t.Parallel()
	b := newBill(t)
	b.must(b.faulty.Set(dynamodbtest.Shares{
		Throttled: 0.1, Conflicts: 0.05, RequestLost: 0.1, AnswerLost: 0.1, Late: 0.1, Twice: 0.1, Parts: 0.1,
		LateBy: 20 * time.Millisecond, TwiceBy: 20 * time.Millisecond,
	}))
	const writers, items = 8, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			left := map[string]bool{}
			for i := range items {
				left[fmt.Sprintf("%d-%d", w, i)] = true
			}
			for len(left) > 0 {
				b.insertSome(left)
			}
		})
	}
	wg.Wait()
	b.faulty.Wait()
	b.must(b.faulty.Set(dynamodbtest.Shares{}))
	out, err := b.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: b.table, ConsistentRead: aws.Bool(true)})
	b.must(err)
	if len(out.Items) != writers*items {
		t.Errorf("%d items are there, want %d", len(out.Items), writers*items)
	}
	usage := b.faulty.Usage()
	for _, kind := range []dynamodbtest.Kind{dynamodbtest.Refused, dynamodbtest.RequestLost, dynamodbtest.AnswerLost, dynamodbtest.Late, dynamodbtest.Twice} {
		if usage.Faults[kind] == 0 {
			t.Errorf("no request was %v", kind)
		}
	}
	if usage.Parts == 0 || usage.Total().Write < writers*items || usage.Uncounted > 0 {
		t.Errorf("usage %+v", usage)
	}
}

// insertSome tries up to eight items, and takes those that are there off the list.
func (b *bill) insertSome(left map[string]bool) {
	var ids []string
	input := &dynamodb.BatchExecuteStatementInput{}
	for id := range left {
		if ids = append(ids, id); len(ids) <= 8 {
			input.Statements = append(input.Statements, b.insert(id, 10))
		}
	}
	out, err := b.client.BatchExecuteStatement(b.Context(), input, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return // it is tried again
	}
	for i, r := range out.Responses {
		if r.Error == nil || r.Error.Code == types.BatchStatementErrorCodeEnumDuplicateItem {
			delete(left, ids[i])
		}
	}
}

// A statement as AWS documents it runs on a server that reads one SET alone.
func TestJoinedSetsRun(t *testing.T) {
	t.Parallel()
	b := newBill(t)
	_, err := b.put("a", 10)
	b.must(err)
	o := b.client.Options()
	joined, err := dynamodbtest.New(dynamodbtest.Options{JoinSets: true, Credentials: o.Credentials, Region: o.Region})
	b.must(err)
	t.Cleanup(joined.Close)
	b.batchThrough(joined, "ok", types.BatchStatementRequest{
		Statement:  aws.String(fmt.Sprintf(`UPDATE "%s" SET n = ? SET m = 2 REMOVE body REMOVE none WHERE id = ?`, *b.table)),
		Parameters: []types.AttributeValue{number, text("a")},
	})
}

func (b *bill) batchThrough(t *dynamodbtest.Transport, want string, statements ...types.BatchStatementRequest) {
	b.Helper()
	c := *b
	c.client = dynamodb.New(b.client.Options(), func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: t} })
	_, err := c.batch(want, statements...)()
	b.must(err)
}
