// Command batch stores many orders with one statement and one commit: a batch handler gets what is ready in one call, and
// its transaction commits the rows together with the success of all of their messages.
//
// One of the orders is bad. The batch that it is in is rolled back, and each of its messages runs again by itself, at
// once: the others are stored, the bad one is archived, and no attempt is counted for its neighbours.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	_ "modernc.org/sqlite" // the driver for the application's own reads

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/ledger/sqlite"
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

// store is the batch handler.
func store(ctx context.Context, batch []*consumer.Message) []error {
	err := sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error { return insert(ctx, tx, batch) })
	if err != nil && len(batch) == 1 { // with others it has come to nothing, and each runs alone
		fmt.Println("archived:", err)
	}
	return slices.Repeat([]error{err}, len(batch)) // one commit for all: they fail together
}

// insert stores the orders of a batch with one statement.
func insert(ctx context.Context, tx *sql.Tx, batch []*consumer.Message) error {
	var values []any
	for _, m := range batch {
		var order struct {
			ID    string `json:"id"`
			Cents int    `json:"cents"`
		}
		if err := json.Unmarshal(m.Body, &order); err != nil {
			return consumer.Terminal(err)
		}
		if order.Cents <= 0 {
			return consumer.Terminal(fmt.Errorf("%s: %d cents", order.ID, order.Cents))
		}
		values = append(values, order.ID, order.Cents)
	}
	rows := strings.TrimSuffix(strings.Repeat("(?, ?), ", len(batch)), ", ")
	_, err := tx.ExecContext(ctx, "INSERT INTO example_orders VALUES "+rows, values...)
	return err
}

func run(ctx context.Context, stop func(), queueURL string) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	var orders []*awssqs.SendMessageInput
	for i, cents := range []int{100, 250, 4200, 0, 75, 990} {
		orders = append(orders, &awssqs.SendMessageInput{
			MessageBody: aws.String(fmt.Sprintf(`{"id":"order-%d","cents":%d}`, i+1, cents)),
		})
	}
	if queueURL, err = broker.Queue(ctx, queueURL, "orders", orders...); err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()
	db, err := sql.Open("sqlite", "file:"+ledger.Path+"?_pragma=busy_timeout(10000)") // the application's, on the same file
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS example_orders (order_id TEXT NOT NULL, cents INTEGER NOT NULL)"); err != nil {
		return err
	}

	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, consumer.Batch(100, store), &sqs.Config{
		Options:  consumer.Options{Name: "orders", Concurrency: 1, Logger: local.Logger(broker.Real())},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, stop)
	err = worker.Run(ctx)
	var rows, cents int
	counted := db.QueryRowContext(context.WithoutCancel(ctx), "SELECT count(*), coalesce(sum(cents), 0) FROM example_orders").Scan(&rows, &cents)
	fmt.Println("stored:", rows, "orders,", cents, "cents")
	return errors.Join(err, counted)
}
