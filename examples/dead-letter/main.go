// Command dead-letter forwards orders that fail for good to a queue of their own, and brings one back once its bug is
// mended: its body and attributes are as they were, and its stamp makes it meet its own row in the ledger, so that it is
// handled once however often it is sent back.
//
// Alone it uses queues in its own process, and ends. With -queue-url and -dead-letter-url it forwards what fails on yours,
// until SIGTERM.
package main

import (
	"context"
	"errors"
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
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/sqs"
)

type order struct {
	ID string `json:"id"`
}

func main() {
	queueURL := flag.String("queue-url", "", "a queue of yours; empty: one in this process")
	deadURL := flag.String("dead-letter-url", "", "a queue of yours for what fails; empty: with -queue-url, none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *queueURL, *deadURL); err != nil {
		log.Fatal(err)
	}
	fmt.Println("drained")
}

func run(ctx context.Context, stop func(), queueURL, deadURL string) error {
	own := queueURL != ""
	broker, err := local.OpenSQS(ctx, own)
	if err != nil {
		return err
	}
	defer broker.Close()
	if queueURL, err = broker.Queue(ctx, queueURL, "orders", send("1"), send("2")); err != nil {
		return err
	}
	if deadURL, err = broker.Queue(ctx, deadURL, "failed-orders"); err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	var mended atomic.Bool
	handler := consumer.JSON(func(_ context.Context, o order) error {
		if o.ID == "2" && !mended.Load() {
			return errors.New("no such price list")
		}
		fmt.Println("handled order", o.ID)
		return nil
	})
	options := consumer.Options{Name: "payments", Concurrency: 1, Attempts: 3, BackoffBase: 10 * time.Millisecond, Logger: local.Logger(broker.Real())}
	if deadURL != "" {
		if options.DeadLetter, err = sqs.NewDeadLetterQueue(broker.Client, deadURL); err != nil {
			return err
		}
	}
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, handler, &sqs.Config{
		Options: options, WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	if !own {
		go func() {
			if err := bringBack(ctx, broker.Client, deadURL, queueURL, func() { mended.Store(true) }); err != nil {
				log.Print(err)
			}
			broker.StopWhenEmpty(ctx, stop)
		}()
	}
	return worker.Run(ctx)
}

// bringBack waits for a dead letter, mends the bug, and sends the order back to its queue.
func bringBack(ctx context.Context, client *awssqs.Client, from, to string, mend func()) error {
	var got *awssqs.ReceiveMessageOutput
	for got == nil || len(got.Messages) == 0 {
		var err error
		if got, err = client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
			QueueUrl: &from, WaitTimeSeconds: 20, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		}); err != nil {
			return err
		}
	}
	d, err := sqs.ParseDeadLetter(&got.Messages[0])
	if err != nil {
		return err
	}
	fmt.Printf("dead letter: %s after %d attempts: %s: %s\n", d.Kind, d.Message.Attempt, d.Error, d.Message.Body)
	mend()
	back, err := sqs.SourceInput(d, to)
	if err != nil {
		return err
	}
	for range 2 { // sent twice by mistake: the second copy meets the first one's row
		if _, err := client.SendMessage(ctx, back); err != nil {
			return err
		}
	}
	_, err = client.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: &from, ReceiptHandle: got.Messages[0].ReceiptHandle})
	return err
}

func send(id string) *awssqs.SendMessageInput {
	return &awssqs.SendMessageInput{MessageBody: aws.String(`{"id":"` + id + `"}`)}
}
