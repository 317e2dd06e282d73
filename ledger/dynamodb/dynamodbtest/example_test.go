package dynamodbtest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// server stands in for an endpoint: it accepts everything.
type server func(operation string)

func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	s(r.Header.Get("X-Amz-Target"))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, r.Body.Close()
}

// The first answer is lost after the item was stored. The SDK tries again, and what it does is done twice.
func Example() {
	faulty, err := dynamodbtest.New(dynamodbtest.Options{
		Base: server(func(operation string) { fmt.Println("carried out:", operation) }),
		Choose: func(c dynamodbtest.Call) dynamodbtest.Fault {
			if c.Operation == "PutItem" && c.N == 0 {
				return dynamodbtest.Fault{Kind: dynamodbtest.AnswerLost}
			}
			return dynamodbtest.Fault{}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer faulty.Close()
	ctx := context.Background()
	client, err := dynamodbtest.Connect(ctx, "http://127.0.0.1:8000", func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: faulty} })
	if err != nil {
		fmt.Println(err)
		return
	}
	item := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "order 1"}}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("orders"), Item: item}); err != nil {
		fmt.Println(err)
	}
	fmt.Println("requests:", faulty.Usage().Calls["PutItem"], "size:", dynamodbtest.ItemSize(item))
	// Output:
	// carried out: DynamoDB_20120810.PutItem
	// carried out: DynamoDB_20120810.PutItem
	// requests: 2 size: 9
}
