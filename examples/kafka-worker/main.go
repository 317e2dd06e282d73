// Command kafka-worker handles the records of one Kafka topic.
//
// Alone it starts a cluster of its own, handles the topic's three records and ends. With -brokers it works on yours until
// SIGTERM.
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

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/kafka"
)

type order struct {
	ID string `json:"id"`
}

func main() {
	brokers := flag.String("brokers", "", "host:port,... of a cluster of yours; empty: one in this process")
	topic := flag.String("topic", "orders", "the topic")
	group := flag.String("group", "payments", "the consumer group")
	path := flag.String("ledger", "", "the ledger's file; empty: a temporary one, or ledger.db with a broker of yours")
	work := flag.Duration("work", 0, "how long each order takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *brokers, *topic, *group, *path, *work); err != nil {
		log.Fatal(err)
	}
	fmt.Println("drained")
}

func run(ctx context.Context, stop func(), brokers, topic, group, path string, work time.Duration) error {
	cluster, err := local.OpenKafka(ctx, brokers, topic, record("1"), record("2"), record("3"))
	if err != nil {
		return err
	}
	defer cluster.Close()
	ledger, err := local.OpenLedger(ctx, path, cluster.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	handler := consumer.JSON(func(ctx context.Context, o order) error {
		fmt.Println("handling order", o.ID, "at", consumer.MessageFrom(ctx).ID)
		select {
		case <-time.After(work):
		case <-ctx.Done(): // the drain's time is up, the lease is lost, or it took too long
			return context.Cause(ctx)
		}
		fmt.Println("handled order", o.ID)
		return nil
	})
	// The options are the client's own: TLS, SASL, balancers and instance ids go here.
	worker, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(cluster.Brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
	}, ledger, handler, &kafka.Config{
		Options: consumer.Options{Concurrency: 1, Logger: local.Logger(cluster.Real())}, Order: kafka.OrderPartition,
	})
	if err != nil {
		return err
	}
	cluster.StopWhenCommitted(ctx, group, stop)
	return worker.Run(ctx)
}

func record(id string) *kgo.Record {
	return kgo.KeyStringRecord("customer-"+id, `{"id":"`+id+`"}`)
}
