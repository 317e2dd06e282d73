package lambdasqs_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs/lambdasqs"
)

// A function, whose ledger is in memory here: each of its processes would have one of its own.
func Example() {
	l := memory.New()
	charge := func(_ context.Context, m *consumer.Message) error { // whatever the queue's messages ask for
		fmt.Printf("charged %s\n", m.Body)
		return nil
	}
	h, err := lambdasqs.New(l, consumer.HandlerFunc(charge), &lambdasqs.Config{
		Options: consumer.Options{Name: "billing"},
	})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(h.Handle)
}

// Of two orders one cannot be charged yet. Lambda deletes the other one, and delivers this one again; if it delivers both, only this
// one is charged. In production the ledger is postgres.New's, and lambda.Start gets the Handle.
func ExampleHandler_Handle() {
	away := true
	charge := func(_ context.Context, m *consumer.Message) error {
		if m.ID == "order-2" && away {
			return errors.New("the bank is away")
		}
		fmt.Printf("charged %s\n", m.Body)
		return nil
	}
	h, err := lambdasqs.New(memory.New(), consumer.HandlerFunc(charge), &lambdasqs.Config{
		Options: consumer.Options{Name: "billing"},
	})
	if err != nil {
		log.Fatal(err)
	}
	const arn = "arn:aws:sqs:eu-central-1:123456789012:orders"
	event := events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "order-1", Body: "19.99", EventSource: "aws:sqs", EventSourceARN: arn},
		{MessageId: "order-2", Body: "5.00", EventSource: "aws:sqs", EventSourceARN: arn},
	}}
	for range 2 {
		response, err := h.Handle(context.Background(), event)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("again:", response.BatchItemFailures)
		away = false
	}
	// Output:
	// charged 19.99
	// again: [{order-2}]
	// charged 5.00
	// again: []
}
