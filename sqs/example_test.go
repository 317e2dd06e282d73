package sqs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

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

	handler := consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		fmt.Printf("charge %s, attempt %d\n", m.Body, m.Attempt)
		stop() // a real worker goes on until it is told to stop
		return nil
	})
	w, err := sqs.NewWorker(client, url, memory.New(), handler, &sqs.Config{
		Options:  consumer.Options{Name: "billing"},
		WaitTime: time.Second, // the example's stop waits for an open poll
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("left in the queue:", srv.Queue("orders").Depth())
	// Output:
	// charge order 1, attempt 1
	// left in the queue: 0
}
