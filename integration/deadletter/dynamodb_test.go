package deadletter_test

import (
	"context"
	"net/http"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// table is a ledger in a table of its own.
func table(t *testing.T) store {
	t.Helper()
	endpoint, name := services.DynamoDB(t), services.Name(t)
	way, err := dynamodbtest.New(dynamodbtest.Options{JoinSets: endpoint != dynamodbtest.AWS})
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamodbtest.Connect(t.Context(), endpoint, func(o *sdk.Options) { o.HTTPClient = &http.Client{Transport: way} })
	if err == nil {
		err = dynamodb.Migrate(t.Context(), client, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.WithoutCancel(t.Context()), &sdk.DeleteTableInput{TableName: &name}); err != nil {
			t.Error(err)
		}
		way.Close()
	})
	return dynamodb.New(client, name, nil)
}
