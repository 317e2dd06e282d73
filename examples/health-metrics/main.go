// Command health-metrics serves what an orchestrator and Prometheus ask for: /livez, /readyz and /metrics.
//
// Alone it handles three orders from a queue of its own, asks itself and ends. With -queue-url it works on yours until
// SIGTERM.
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
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/examples/internal/local"
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
	queueURL, err = broker.Queue(ctx, queueURL, "orders", send("1"), send("2"), send("3"))
	if err != nil {
		return err
	}
	ledger, err := local.OpenLedger(ctx, "", broker.Real())
	if err != nil {
		return err
	}
	defer ledger.Close()

	exporter, err := prometheus.New() // registers with Prometheus' default registry, which promhttp serves
	if err != nil {
		return err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	handler := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
	worker, err := sqs.NewWorker(broker.Client, queueURL, ledger, handler, &sqs.Config{
		Options:  consumer.Options{Name: "payments", MeterProvider: meters, Logger: local.Logger(broker.Real())},
		WaitTime: time.Second, // a shutdown waits for open polls
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: routes(worker), ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	fmt.Printf("listening on http://%s\n", listener.Addr())
	broker.StopWhenEmpty(ctx, func() {
		askOneself("http://" + listener.Addr().String())
		stop()
	})
	return worker.Run(ctx)
}

func send(id string) *awssqs.SendMessageInput {
	return &awssqs.SendMessageInput{MessageBody: aws.String("order " + id)}
}
