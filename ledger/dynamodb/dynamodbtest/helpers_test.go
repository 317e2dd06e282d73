package dynamodbtest_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// upstream stands in for the server: it notes what it gets, and answers as it is told; "{}" by default.
type upstream struct {
	mu       sync.Mutex
	got      []string // operation and body
	requests []*http.Request
	answer   func(operation, body string) string
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
	u.mu.Lock()
	defer u.mu.Unlock()
	u.got, u.requests = append(u.got, operation+" "+string(body)), append(u.requests, r)
	text := "{}"
	if u.answer != nil {
		text = u.answer(operation, string(body))
	}
	header := http.Header{"X-Amz-Crc32": {fmt.Sprint(crc32.ChecksumIEEE([]byte(text)))}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.got)
}

// always has every request meet one fault.
func always(f dynamodbtest.Fault) func(dynamodbtest.Call) dynamodbtest.Fault {
	return func(dynamodbtest.Call) dynamodbtest.Fault { return f }
}

// through is a client behind a transport; it does not try again.
func through(t *testing.T, o dynamodbtest.Options) (*dynamodb.Client, *dynamodbtest.Transport) {
	t.Helper()
	faulty, err := dynamodbtest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(faulty.Close)
	client, err := dynamodbtest.Connect(t.Context(), "http://127.0.0.1:1", func(o *dynamodb.Options) {
		o.Retryer, o.HTTPClient = aws.NopRetryer{}, &http.Client{Transport: faulty}
	})
	if err != nil {
		t.Fatal(err)
	}
	return client, faulty
}

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "other", SecretAccessKey: "secret"}, nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

var number = &types.AttributeValueMemberN{Value: "1"}

type attributes = map[string]types.AttributeValue

func get(ctx context.Context, client *dynamodb.Client) error {
	_, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("t"), Key: attributes{"id": text("1")}})
	return err
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return fmt.Sprint(err)
}
