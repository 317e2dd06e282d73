// Command adaptive lets the worker find out how many handlers pay: the service that they call does eight calls at once, and turns away
// who comes beside them.
//
// It begins with two handlers and may have 64. None of the orders fails for good, although each has three attempts only: what is turned
// away while most are does not count.
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
	fmt.Println("drained")
}

// service is what the handlers call.
type service struct{ busy, most, charged atomic.Int64 }

var errBusy = errors.New("503 Service Unavailable")

func (s *service) charge(context.Context, *consumer.Message) error {
	n := s.busy.Add(1)
	defer s.busy.Add(-1)
	if n > 8 {
		return errBusy
	}
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(20 * time.Millisecond)
	s.charged.Add(1)
	return nil
}

func run(ctx context.Context, stop func(), queueURL string) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	orders := make([]*awssqs.SendMessageInput, 500)
	for i := range orders {
		orders[i] = &awssqs.SendMessageInput{MessageBody: aws.String(fmt.Sprint("order ", i+1))}
	}
	if queueURL, err = broker.Queue(ctx, queueURL, "orders", orders...); err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()
	s := &service{}
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, consumer.HandlerFunc(s.charge), &sqs.Config{
		Options: consumer.Options{
			Name: "payments", MinConcurrency: 2, Concurrency: 64, // as many as pay
			Attempts: 3, BackoffBase: 100 * time.Millisecond, Logger: local.Logger(broker.Real()),
		},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	broker.StopWhenEmpty(ctx, stop)
	err = worker.Run(ctx)
	fmt.Println("charged:", s.charged.Load(), "orders; more than two at once:", s.most.Load() > 2)
	return err
}
