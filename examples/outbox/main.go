// Command outbox charges an order and publishes its shipment in one commit. The first attempt fails behind both, and leaves neither. What the
// second one committed is relayed to another queue, whose consumer would recognise it if it came twice.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
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
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/sqs"
)

func main() {
	orders := flag.String("orders-url", "", "a queue of yours; empty: one in this process")
	shipments := flag.String("shipments-url", "", "another one; empty: one in this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *orders, *shipments); err != nil {
		log.Fatal(err)
	}
}

type order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

var errTrouble = errors.New("the process is in trouble")

// charge writes the charge, and publishes the shipment with it.
func charge(ctx context.Context, o order) error {
	attempt := consumer.MessageFrom(ctx).Attempt
	err := sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS example_charge (id TEXT, cents INTEGER)"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO example_charge VALUES (?, ?)", o.ID, o.Cents); err != nil {
			return err
		}
		body, err := json.Marshal(o)
		if err != nil {
			return err
		}
		err = consumer.Publish(ctx, ledger.Outgoing{Target: "shipments", Key: []byte(o.ID), Body: body})
		if err == nil && attempt == 1 {
			err = errTrouble
		}
		return err
	})
	fmt.Printf("attempt %d: charged and published: %v\n", attempt, err == nil)
	return err
}

func run(ctx context.Context, stop func(), orders, shipments string) error {
	broker, err := local.OpenSQS(ctx, orders != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	if orders, err = broker.Queue(ctx, orders, "orders", &awssqs.SendMessageInput{MessageBody: aws.String(`{"id":"order-1","cents":4200}`)}); err != nil {
		return err
	}
	if shipments, err = broker.Queue(ctx, shipments, "shipments"); err != nil {
		return err
	}
	store, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer store.Close()
	target, err := sqs.NewPublisher(broker.Client, shipments)
	if err != nil {
		return err
	}
	options := consumer.Options{Name: "charging", Concurrency: 1, BackoffBase: 10 * time.Millisecond, Logger: local.Logger(broker.Real()),
		Relay: &consumer.Relay{Targets: map[string]consumer.Publisher{"shipments": target}}}
	charging, err := sqs.NewWorker(broker.Client, orders, store, consumer.JSON(charge), &sqs.Config{Options: options, WaitTime: time.Second})
	if err != nil {
		return err
	}
	options.Name, options.Relay = "shipping", nil
	ship := consumer.JSON(func(_ context.Context, o order) error {
		fmt.Println("shipping", o.ID)
		stop()
		return nil
	})
	shipping, err := sqs.NewWorker(broker.Client, shipments, store, ship, &sqs.Config{Options: options, WaitTime: time.Second})
	if err != nil {
		return err
	}
	return consumer.Run(ctx, charging, shipping)
}
