// Command metrics lets Prometheus scrape a worker and its ledger: dashboard.json shows both in Grafana, alerts.yaml says
// when to call somebody, and prometheus.yml where to scrape.
//
// Alone it handles four orders from a queue of its own (one fails at first, one for good), asks itself what it would tell
// Prometheus, and ends. With -queue-url it works on yours until SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs"
)

func main() {
	queueURL := flag.String("queue-url", "", "a queue of yours; empty: one in this process")
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains; a second one ends the process at once
	if err := run(ctx, stop, *queueURL, *addr); err != nil {
		log.Fatal(err)
	}
	fmt.Println("drained")
}

func run(ctx context.Context, stop func(), queueURL, addr string) error {
	broker, err := local.OpenSQS(ctx, queueURL != "")
	if err != nil {
		return err
	}
	defer broker.Close()
	queueURL, err = broker.Queue(ctx, queueURL, "orders", send("1"), send("2"), send("late"), send("bad"))
	if err != nil {
		return err
	}
	store, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer store.Close()

	exporter, err := prometheus.New() // registers with Prometheus' default registry, which promhttp serves
	if err != nil {
		return err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	statistics, err := consumer.ObserveLedger(store, meters) // in one process or a few: the ledger is one
	if err != nil {
		return err
	}
	defer func() { _ = statistics.Unregister() }() // an error means that it is gone already
	worker, err := sqs.NewWorker(broker.Client, queueURL, store, consumer.HandlerFunc(handle), &sqs.Config{
		Options:  consumer.Options{Name: "payments", MeterProvider: meters, BackoffBase: 100 * time.Millisecond, Logger: local.Logger(broker.Real())},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	fmt.Printf("listening on http://%s/metrics\n", listener.Addr())
	broker.StopWhenEmpty(ctx, func() {
		defer stop()
		// The worker makes a pass over the ledger every minute, which is what its counts come from. Here one is made now.
		if _, err := store.Sweep(ctx, ledger.MaintainConfig{}); err != nil {
			log.Print(err)
			return
		}
		askOneself("http://" + listener.Addr().String() + "/metrics")
	})
	return worker.Run(ctx)
}

func handle(_ context.Context, m *consumer.Message) error {
	switch {
	case string(m.Body) == "order late" && m.Attempt == 1:
		return errors.New("the payment service does not answer")
	case string(m.Body) == "order bad":
		return consumer.Terminal(errors.New("no such customer"))
	}
	return nil
}

func send(id string) *awssqs.SendMessageInput {
	return &awssqs.SendMessageInput{MessageBody: aws.String("order " + id)}
}
