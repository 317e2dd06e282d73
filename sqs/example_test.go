package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// A worker handles one order and is stopped. The server is the in-process one; the client would be that of AWS.
func Example() {
	srv, err := sqstest.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	url, err := srv.CreateQueue("orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	client := srv.Client()
	ctx, stop := context.WithCancel(context.Background())
	if _, err := client.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("order 1")}); err != nil {
		log.Fatal(err)
	}

	charge := func(_ context.Context, m *consumer.Message) error {
		fmt.Printf("charge %s, attempt %d\n", m.Body, m.Attempt)
		stop() // a real worker goes on until it is told to stop
		return nil
	}
	l := memory.New() // in production postgres.New or sqlite.Open
	cfg := &sqs.Config{Options: consumer.Options{Name: "billing"}}
	cfg.WaitTime = time.Second // the example's stop waits for an open poll

	w, err := sqs.NewWorker(client, url, l, consumer.HandlerFunc(charge), cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Run(ctx); err != nil { // until ctx is done: then it drains
		log.Fatal(err)
	}
	fmt.Println("left in the queue:", srv.Queue("orders").Depth())
	// Output:
	// charge order 1, attempt 1
	// left in the queue: 0
}

// An order that fails for good is forwarded to a queue of its own, and read back from there.
func ExampleNewDeadLetterQueue() {
	srv, err := sqstest.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	client := srv.Client()
	orders, err := srv.CreateQueue("orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	failed, err := srv.CreateQueue("failed-orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := client.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: &orders, MessageBody: aws.String("order 7")}); err != nil {
		log.Fatal(err)
	}
	target, err := sqs.NewDeadLetterQueue(client, failed)
	if err != nil {
		log.Fatal(err)
	}
	w, err := sqs.NewWorker(client, orders, memory.New(), consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
		return consumer.Terminal(errors.New("no such customer"))
	}), &sqs.Config{Options: consumer.Options{Name: "billing", DeadLetter: target}, WaitTime: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		defer stop()
		got, err := client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
			QueueUrl: &failed, WaitTimeSeconds: 20, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil || len(got.Messages) == 0 {
			log.Print("no dead letter: ", err)
			return
		}
		d, err := sqs.ParseDeadLetter(&got.Messages[0])
		if err != nil {
			log.Print(err)
			return
		}
		fmt.Printf("%s: %s: %s, to be sent back under its own identity: %t\n", d.Message.Body, d.Kind, d.Error, d.Stamp != nil)
	}()
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: order 7: terminal: no such customer, to be sent back under its own identity: true
}
