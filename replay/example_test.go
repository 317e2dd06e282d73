package replay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// An order fails because of a bug. The bug is mended, and the ledger's archive is replayed through the handler.
func Example() {
	ctx := context.Background()
	server, err := sqstest.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue, err := server.CreateQueue("orders", nil)
	if err != nil {
		log.Fatal(err)
	}
	client, l := server.Client(), memory.New() // in production: postgres.New
	if _, err := client.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String("order 1")}); err != nil {
		log.Fatal(err)
	}

	// The worker with the bug.
	running, stop := context.WithCancel(ctx)
	buggy := consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
		return consumer.Terminal(errors.New("division by zero"))
	})
	w, err := sqs.NewWorker(client, queue, l, buggy, &sqs.Config{Options: consumer.Options{Name: "shop"}, WaitTime: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for server.Counts("orders").Depth() > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
	}()
	if err := w.Run(running); err != nil {
		log.Fatal(err)
	}

	mended := consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		fmt.Printf("handled %s\n", m.Body)
		return nil
	})
	target, err := replay.InPlace(mended, &replay.InPlaceOptions{Options: consumer.Options{Name: "shop"}})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		report, err := replay.Run(ctx, l, replay.Archive(l), target, replay.Config{By: ledger.By{Actor: "ann", Reason: "bug 42 is mended"}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("replayed:", report.Replayed, "succeeded already:", report.Succeeded)
	}
	// Output:
	// handled order 1
	// replayed: 1 succeeded already: 0
	// replayed: 0 succeeded already: 1
}
