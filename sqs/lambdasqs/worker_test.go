package lambdasqs_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/lambdasqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// What a worker has done of a queue is done for the function: both know the message by the same name.
func TestAWorkerAndAFunctionShareTheirMessages(t *testing.T) {
	t.Parallel()
	srv, err := sqstest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	url, err := srv.CreateQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	client, body := srv.Client(), "order 1"
	sent, err := client.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
	if err != nil {
		t.Fatal(err)
	}
	attrs, err := client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	if err != nil {
		t.Fatal(err)
	}
	arn := attrs.Attributes["QueueArn"]

	l := memory.New()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	handled := ""
	w, err := sqs.NewWorker(client, url, l, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		handled = m.ID
		stop()
		return nil
	}), &sqs.Config{Options: consumer.Options{Name: "billing"}, WaitTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil || handled != *sent.MessageId {
		t.Fatalf("the worker handled %q of %q, %v", handled, *sent.MessageId, err)
	}

	f := newFunction(t, l, nil, &lambdasqs.Config{})
	e := events.SQSEvent{Records: []events.SQSMessage{message(arn, *sent.MessageId), message(arn, "another one")}}
	e.Records[0].Body = body
	f.handle(e, nil, "another one 1")
}
