// Command child-keys charges at a payment service, outside of any transaction of ours. The first answer is lost, so the
// handler runs again; because it passes on consumer.ChildKey, the service charges once.
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

// payments stands for a service that honours idempotency keys (Stripe, Adyen, PayPal do).
type payments struct {
	charges  map[string]int
	requests int
}

var errNoAnswer = errors.New("the payment service's answer was lost")

// charge charges once for each key. Its first answer gets lost on the way.
func (p *payments) charge(key string, cents int) error {
	p.requests++
	if _, known := p.charges[key]; known {
		fmt.Println("charge: this key is known, nothing is charged again")
		return nil
	}
	p.charges[key] = cents
	fmt.Println("charge:", cents, "cents")
	if p.requests == 1 {
		return errNoAnswer
	}
	return nil
}

func run(ctx context.Context, stop func(), queueURL string) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	queueURL, err = broker.Queue(ctx, queueURL, "orders", &awssqs.SendMessageInput{MessageBody: aws.String(`{"cents":4200}`)})
	if err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	service := &payments{charges: map[string]int{}}
	handler := consumer.JSON(func(ctx context.Context, o struct{ Cents int }) error {
		// One key for each outside effect: the step's name tells them apart.
		err := service.charge(consumer.ChildKey(ctx, "payment:charge"), o.Cents)
		fmt.Printf("attempt %d: %v\n", consumer.MessageFrom(ctx).Attempt, err)
		return err
	})
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, handler, &sqs.Config{
		Options:  consumer.Options{Name: "payments", Concurrency: 1, BackoffBase: 10 * time.Millisecond, Logger: local.Logger(broker.Real())},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, stop)
	err = worker.Run(ctx)
	fmt.Println("requests:", service.requests, "charges:", len(service.charges))
	return err
}
