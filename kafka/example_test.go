package kafka_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func Example() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for _, order := range []string{"4 apples", "2 pears"} {
		if err := producer.ProduceSync(ctx, kgo.KeyStringRecord("customer 7", order)).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}

	handled := 0
	charge := func(_ context.Context, m *consumer.Message) error {
		fmt.Println(m.ID, string(m.Key), string(m.Body))
		if handled++; handled == 2 {
			stop()
		}
		return nil
	}
	brokers := cluster.ListenAddrs()

	l := memory.New() // in production postgres.New or sqlite.Open
	w, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
	}, l, consumer.HandlerFunc(charge), nil)
	if err != nil {
		log.Fatal(err)
	}
	err = w.Run(ctx) // until ctx is done: then it drains, and commits
	fmt.Println(err)
	// Output:
	// orders-0-0 customer 7 4 apples
	// orders-0-1 customer 7 2 pears
	// <nil>
}

// A producer that may send one order twice gives it an identity: both records are one message to the workers.
func ExampleStampRecord() {
	source := kafka.SourceName("the-cluster's-id", "orders")
	for range 2 {
		r := &kgo.Record{Topic: "orders", Value: []byte("order 7")}
		if err := kafka.StampRecord(r, source, "order-7"); err != nil {
			log.Fatal(err)
		}
		stamp, err := consumer.ParseStamp(r.Headers[0].Value)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Headers[0].Key, stamp.Source, stamp.ID)
	}
	// Output:
	// ackledger-id the-cluster's-id/orders order-7
	// ackledger-id the-cluster's-id/orders order-7
}
