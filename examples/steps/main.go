// Command steps charges, ships and notifies: three calls of services outside, in one handler. The process is in trouble after each of
// them, so the handler runs again; because the calls are steps, none is made twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/sqs"
)

func main() {
	queueURL := flag.String("queue-url", "", "a queue of yours; empty: one in this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *queueURL); err != nil {
		log.Fatal(err)
	}
}

type order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// receipt is what the payment service answers.
type receipt struct {
	Charge string `json:"charge"`
	Cents  int    `json:"cents"`
}

var errTrouble = errors.New("the process is in trouble")

// handle does an order's work. Each step's result is recorded before the next one begins; on a later attempt it is given back.
func handle(ctx context.Context, o order) error {
	attempt := consumer.MessageFrom(ctx).Attempt
	paid, err := consumer.Step(ctx, "charge", func(_ context.Context, key string) (receipt, error) {
		fmt.Println("charging", o.ID) // with key as the payment service's idempotency key
		return receipt{Charge: "charge-of-" + o.ID, Cents: o.Cents}, nil
	})
	if err != nil || attempt == 1 {
		return errors.Join(err, errTrouble)
	}
	parcel, err := consumer.Step(ctx, "ship", func(context.Context, string) (string, error) {
		fmt.Println("shipping", o.ID, "paid with", paid.Charge)
		return "parcel-of-" + o.ID, nil
	})
	if err != nil || attempt == 2 {
		return errors.Join(err, errTrouble)
	}
	_, err = consumer.Step(ctx, "notify", func(context.Context, string) (bool, error) {
		fmt.Println("notifying:", parcel, "is on its way")
		return true, nil
	})
	if err != nil || attempt == 3 {
		return errors.Join(err, errTrouble)
	}
	fmt.Println("attempt", attempt, "did all of", o.ID)
	return nil
}

func run(ctx context.Context, stop func(), queueURL string) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	queueURL, err = broker.Queue(ctx, queueURL, "orders", &awssqs.SendMessageInput{MessageBody: aws.String(`{"id":"order-1","cents":4200}`)})
	if err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, consumer.JSON(handle), &sqs.Config{
		Options:  consumer.Options{Name: "orders", Concurrency: 1, BackoffBase: 10 * time.Millisecond, Logger: local.Logger(broker.Real())},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, stop)
	return worker.Run(ctx)
}
