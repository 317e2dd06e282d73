// Command many-queues runs workers for two SQS queues and a Kafka topic in one process. They share handler slots: orders get three for each
// of refunds, and shipments what these two leave. If one worker cannot go on, all drain and the process ends.
package main

import (
	"context"
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
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/sqs"
)

func main() {
	orders := flag.String("orders-url", "", "a queue of yours; give all three flags or none")
	refunds := flag.String("refunds-url", "", "another queue of yours")
	brokers := flag.String("brokers", "", "host:port,... of a Kafka cluster of yours, with a topic shipments")
	flag.Parse()
	if given := flag.NFlag(); given != 0 && given != 3 {
		log.Fatalf("give all of -orders-url, -refunds-url and -brokers, or none: %d given", given)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *orders, *refunds, *brokers); err != nil {
		log.Fatal(err)
	}
	fmt.Println("drained")
}

const topic, group = "shipments", "payments"

func run(ctx context.Context, stop func(), ordersURL, refundsURL, brokers string) error {
	queues, err := local.OpenSQS(ctx, ordersURL != "")
	if err != nil {
		return err
	}
	defer queues.Close()
	if ordersURL, err = queues.Queue(ctx, ordersURL, "orders", send("order 1"), send("order 2")); err != nil {
		return err
	}
	if refundsURL, err = queues.Queue(ctx, refundsURL, "refunds", send("refund 1")); err != nil {
		return err
	}
	cluster, err := local.OpenKafka(ctx, brokers, topic, kgo.StringRecord("shipment 1"), kgo.StringRecord("shipment 2"))
	if err != nil {
		return err
	}
	defer cluster.Close()
	ledger, err := local.OpenLedger(ctx, "", queues.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	// At most four handlers run at once, whichever queue they serve: as many as the shared resource bears.
	slots := consumer.NewSlots(4)
	options := func(share consumer.Share) consumer.Options {
		return consumer.Options{Name: group, Concurrency: 8, Limiter: slots.Limiter(share), Logger: local.Logger(queues.Real())}
	}
	var workers []consumer.Worker
	for _, q := range []struct {
		url   string
		share consumer.Share
	}{{ordersURL, consumer.Share{Weight: 3}}, {refundsURL, consumer.Share{Weight: 1}}} {
		w, err := sqs.NewWorker(queues.Client, q.url, ledger, consumer.HandlerFunc(handle), &sqs.Config{
			Options:  options(q.share),
			WaitTime: time.Second, // a shutdown waits for open polls
		})
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	w, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(cluster.Brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
	}, ledger, consumer.HandlerFunc(handle), &kafka.Config{Options: options(consumer.Share{Level: 1})})
	if err != nil {
		return err
	}
	var open atomic.Int32
	open.Store(2)
	finished := func() {
		if open.Add(-1) == 0 {
			stop()
		}
	}
	queues.StopWhenEmpty(ctx, finished)
	cluster.StopWhenCommitted(ctx, group, finished)
	return consumer.Run(ctx, append(workers, w)...)
}

func handle(_ context.Context, m *consumer.Message) error {
	fmt.Println("handled", string(m.Body))
	return nil
}

func send(body string) *awssqs.SendMessageInput {
	return &awssqs.SendMessageInput{MessageBody: aws.String(body)}
}
