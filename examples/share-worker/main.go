// Command share-worker handles the records of one Kafka topic as a member of a share group: more members than partitions share the work,
// and there is no order.
//
// Alone it starts a cluster of its own, handles the topic's three records and ends. With -brokers it works on yours (Kafka 4.2 or newer)
// until SIGTERM; the group must be set up as docs/share-groups.md says.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

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
	group := flag.String("group", "payments", "the share group")
	path := flag.String("ledger", "", "the ledger's file; empty: a temporary one, or ledger.db with a broker of yours")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *brokers, *topic, *group, *path); err != nil {
		log.Fatal(err)
	}
	fmt.Println("drained")
}

func run(ctx context.Context, stop func(), brokers, topic, group, path string) error {
	cluster, err := local.OpenKafka(ctx, brokers, topic, record("1"), record("2"), record("3"))
	if err != nil {
		return err
	}
	defer cluster.Close()
	err = cluster.SetShareGroup(ctx, group, map[string]string{
		"share.delivery.count.limit": "10", "share.isolation.level": "read_committed", "share.auto.offset.reset": "earliest",
		"share.record.lock.duration.ms": "30000",
	})
	if err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, path, cluster.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	handler := consumer.JSON(func(_ context.Context, o order) error {
		fmt.Println("handled order", o.ID)
		return nil
	})
	worker, err := kafka.NewShareWorker([]kgo.Opt{
		kgo.SeedBrokers(cluster.Brokers...), kgo.ShareGroup(group), kgo.ConsumeTopics(topic),
	}, ledger, handler, &kafka.ShareConfig{Options: consumer.Options{Attempts: 5, Logger: local.Logger(cluster.Real())}})
	if err != nil {
		return err
	}
	cluster.StopWhenAccepted(ctx, group, stop)
	return worker.Run(ctx)
}

func record(id string) *kgo.Record {
	return kgo.KeyStringRecord("customer-"+id, `{"id":"`+id+`"}`)
}
