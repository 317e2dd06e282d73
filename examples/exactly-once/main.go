// Command exactly-once commits a handler's effects together with the message's success, in one transaction: both or
// neither. The first attempt fails after its effect, and leaves no trace of it.
//
// Alone it keeps the ledger and the application's table in a SQLite file. With -postgres it does the same in a database
// of yours (postgres://user:password@host/db), where it makes the ledger's schema and the table example_charges.
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
	dsn := flag.String("postgres", "", "a PostgreSQL database of yours; empty: a SQLite file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *queueURL, *dsn); err != nil {
		log.Fatal(err)
	}
}

type order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

func run(ctx context.Context, stop func(), queueURL, dsn string) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	queueURL, err = broker.Queue(ctx, queueURL, "orders", &awssqs.SendMessageInput{MessageBody: aws.String(`{"id":"order-1","cents":4200}`)})
	if err != nil {
		return err
	}
	db, err := openStore(ctx, dsn, broker.Real())
	if err != nil {
		return err
	}
	defer db.Close()
	before, err := db.Count(ctx, "order-1") // of earlier runs, whose messages were others
	if err != nil {
		return err
	}

	handler := consumer.JSON(func(ctx context.Context, o order) error {
		attempt := consumer.MessageFrom(ctx).Attempt
		err := db.Charge(ctx, o, func() error { // called inside the transaction, after the charge
			if attempt == 1 {
				return errors.New("the process is in trouble")
			}
			return nil
		})
		fmt.Printf("attempt %d at %s: %v\n", attempt, o.ID, err)
		return err
	})
	worker, err := sqs.NewWorker(broker.Client, queueURL, db.Ledger(), handler, &sqs.Config{
		Options:  consumer.Options{Name: "payments", Concurrency: 1, BackoffBase: 10 * time.Millisecond, Logger: local.Logger(broker.Real())},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, stop)
	err = worker.Run(ctx)
	rows, countErr := db.Count(context.WithoutCancel(ctx), "order-1")
	fmt.Println("charges of order-1:", rows-before)
	return errors.Join(err, countErr)
}
