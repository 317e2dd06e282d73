// Command fifo keeps the order inside each message group of a FIFO queue: an attempt that fails is repeated in place, its
// group waits, the other groups go on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/sqs"
)

func main() {
	queueURL := flag.String("queue-url", "", "a FIFO queue of yours; empty: one in this process")
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
	queueURL, err = broker.Queue(ctx, queueURL, "payments.fifo",
		send("alice", "reserve"), send("bob", "reserve"), send("alice", "charge"), send("bob", "charge"),
		send("alice", "ship"), send("bob", "ship"))
	if err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	steps := map[string][]string{} // by group
	var mu sync.Mutex
	handler := consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if m.Group == "alice" && string(m.Body) == "charge" && m.Attempt < 3 {
			steps[m.Group] = append(steps[m.Group], "(charge declined)")
			return errors.New("the card was declined")
		}
		steps[m.Group] = append(steps[m.Group], string(m.Body))
		return nil
	})
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, handler, &sqs.Config{
		Options:  consumer.Options{Name: "payments", BackoffBase: 50 * time.Millisecond, Logger: local.Logger(broker.Real())},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, stop)
	err = worker.Run(ctx)
	for _, group := range []string{"alice", "bob"} {
		fmt.Printf("%s: %s\n", group, strings.Join(steps[group], ", "))
	}
	return err
}

func send(group, step string) *awssqs.SendMessageInput {
	return &awssqs.SendMessageInput{
		MessageBody: aws.String(step), MessageGroupId: aws.String(group), MessageDeduplicationId: aws.String(group + step),
	}
}
