// Command parked puts an order off whose bank is closed. The retry waits in the ledger: the queue forgets the message at once, and any
// worker of the queue gets it from the ledger when it is due.
//
// Alone it uses a queue in its own process, and ends. With -queue-url it works on yours until SIGTERM.
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

type order struct {
	ID string `json:"id"`
}

var errClosed = errors.New("the bank is closed")

func main() {
	queueURL := flag.String("queue-url", "", "a queue of yours; empty: one in this process")
	opens := flag.Duration("opens", 2*time.Second, "in how long the bank opens; up to 30 days")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *queueURL, *opens); err != nil {
		log.Fatal(err)
	}
	fmt.Println("drained")
}

func run(ctx context.Context, stop func(), queueURL string, opens time.Duration) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	if queueURL, err = broker.Queue(ctx, queueURL, "orders", &awssqs.SendMessageInput{MessageBody: aws.String(`{"id":"1"}`)}); err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	waits := make(chan struct{})
	handler := consumer.JSON(func(ctx context.Context, o order) error {
		attempt := consumer.MessageFrom(ctx).Attempt
		if attempt == 1 {
			fmt.Printf("order %s, attempt 1: %v\n", o.ID, errClosed)
			return consumer.RetryAfter(errClosed, opens)
		}
		if !broker.Real() {
			<-waits // for what is printed of it
			stop()
		}
		fmt.Printf("order %s, attempt %d: charged\n", o.ID, attempt)
		return nil
	})
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, handler, &sqs.Config{
		Options: consumer.Options{
			Name: "payments", Logger: local.Logger(broker.Real()),
			ParkAfter: time.Second, // of retries that wait for as long; the default is a minute
		},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, func() {
		defer close(waits)
		parked, err := ledger.CountParked(ctx)
		if err != nil {
			log.Print(err)
		}
		for _, s := range parked {
			fmt.Printf("the queue is empty, the ledger has %d\n", s.Messages)
		}
	})
	return worker.Run(ctx)
}
