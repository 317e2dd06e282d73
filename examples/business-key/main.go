// Command business-key recognises a business event that its producer sends twice. To the queue they are two messages,
// with two ids; Options.KeyFunc says that the order's id is what counts.
//
// A known key with another body is no duplicate: it is never run and never dropped, but archived as a mismatch.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/sqs"
)

type order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

func main() {
	queueURL := flag.String("queue-url", "", "a queue of yours; empty: one in this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *queueURL); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, stop func(), queueURL string) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	queueURL, err = broker.Queue(ctx, queueURL, "orders",
		send(`{"id":"order-1","cents":100}`), send(`{"id":"order-1","cents":100}`), send(`{"id":"order-2","cents":250}`))
	if err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	var received, handled atomic.Int32 // both functions are called concurrently
	handler := consumer.JSON(func(_ context.Context, o order) error {
		handled.Add(1)
		fmt.Println("charging", o.ID, o.Cents)
		return nil
	})
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, handler, &sqs.Config{Options: consumer.Options{
		Logger: local.Logger(broker.Real()),
		Name:   "payments", Concurrency: 1,
		KeyFunc: func(m *consumer.Message) (string, error) {
			received.Add(1)
			var o order
			err := json.Unmarshal(m.Body, &o)
			return o.ID, err // an error, or an empty key, sends the message to the archive
		},
	}, WaitTime: time.Second}) // a shutdown waits for open polls
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, stop)
	err = worker.Run(ctx)
	fmt.Println("received:", received.Load(), "handled:", handled.Load())
	return err
}

func send(body string) *awssqs.SendMessageInput {
	return &awssqs.SendMessageInput{MessageBody: aws.String(body)}
}
