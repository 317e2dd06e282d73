// Command sqs-worker handles the messages of one SQS queue.
//
// Alone it starts a queue of its own, handles its three orders and ends. With -queue-url it works on yours until SIGTERM,
// with the AWS configuration of the environment (AWS_REGION, AWS_ENDPOINT_URL, credentials).
package main

import (
	"context"
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

func main() {
	queueURL := flag.String("queue-url", "", "a queue of yours; empty: one in this process")
	path := flag.String("ledger", "", "the ledger's file; empty: a temporary one, or ledger.db with a broker of yours")
	work := flag.Duration("work", 0, "how long each order takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *queueURL, *path, *work); err != nil {
		log.Fatal(err)
	}
	fmt.Println("drained")
}

func run(ctx context.Context, stop func(), queueURL, path string, work time.Duration) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	queueURL, err = broker.Queue(ctx, queueURL, "orders", send("1"), send("2"), send("3"))
	if err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, path, broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	handler := consumer.JSON(func(ctx context.Context, o order) error {
		fmt.Println("handling order", o.ID)
		select {
		case <-time.After(work):
		case <-ctx.Done(): // the drain's time is up, the lease is lost, or it took too long
			return context.Cause(ctx)
		}
		fmt.Println("handled order", o.ID)
		return nil
	})
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, handler, &sqs.Config{
		Options:  consumer.Options{Name: "payments", Concurrency: 1, Logger: local.Logger(broker.Real())},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, stop)
	return worker.Run(ctx)
}

func send(id string) *awssqs.SendMessageInput {
	return &awssqs.SendMessageInput{MessageBody: aws.String(`{"id":"` + id + `"}`)}
}
