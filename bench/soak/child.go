package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/bench/internal/soak"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// childEnv holds the orders of the process that is watched, as JSON.
const childEnv = "ACKLEDGER_SOAK_CHILD"

// orders are what the worker process is told.
type orders struct {
	Database, Topic, Queue, Endpoint string
	Brokers                          []string
}

// status is what the worker process says of itself, a line of JSON a second.
type status struct {
	Handled    soak.Counts
	Heap       float64 // MiB
	Goroutines int
}

// window is how long messages are recognised: longer than the brokers keep them here, and short enough for the sweep to
// be at work all the time.
const window = 12 * time.Minute

// work counts what the handlers do.
type work struct{ rows, ranges, queue, retried, failed atomic.Int64 }

// child is the worker process: it runs until SIGTERM.
func child(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, o.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := postgres.New(ctx, pool, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	w := &work{}
	workers, err := w.workers(o, l)
	if err != nil {
		return err
	}
	over := make(chan struct{})
	defer close(over)
	go w.tell(over)
	return consumer.Run(ctx, workers...)
}

func (w *work) workers(o orders, l ledger.Ledger) ([]consumer.Worker, error) {
	options := consumer.Options{BackoffBase: 50 * time.Millisecond, Keep: window}
	topic := func(group string, audit kafka.Audit, done *atomic.Int64) (consumer.Worker, error) {
		return kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(o.Brokers...), kgo.ConsumerGroup(o.Topic + "-" + group), kgo.ConsumeTopics(o.Topic)},
			l, w.handler(done), &kafka.Config{Options: options, Audit: audit})
	}
	rows, rowsErr := topic("rows", kafka.AuditRows, &w.rows)
	ranges, rangesErr := topic("ranges", kafka.AuditRanges, &w.ranges)
	options.Name, options.Window, options.AllowShortWindow = "soak", window, true // everything is handled within minutes
	queue, queueErr := sqs.NewWorker(newSQSClient(o.Endpoint), o.Queue, l, w.handler(&w.queue), &sqs.Config{Options: options})
	return []consumer.Worker{rows, ranges, queue}, errors.Join(rowsErr, rangesErr, queueErr)
}

// handler fails one message of 1,000 for good, and the first attempt of one of 100.
func (w *work) handler(done *atomic.Int64) consumer.Handler {
	return consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		h := fnv.New32a()
		_, _ = h.Write(m.Body)
		switch n := h.Sum32(); {
		case n%1000 == 0:
			w.failed.Add(1)
			done.Add(1)
			return consumer.Terminal(errors.New("it is one of those"))
		case n%100 == 1 && m.Attempt == 1:
			w.retried.Add(1)
			return errors.New("not yet")
		}
		done.Add(1)
		return nil
	})
}

// tell prints the process' status until it is over.
func (w *work) tell(over <-chan struct{}) {
	out := json.NewEncoder(os.Stdout)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		err := out.Encode(status{
			Handled: soak.Counts{Rows: w.rows.Load(), Ranges: w.ranges.Load(), Queue: w.queue.Load(), Retried: w.retried.Load(), Failed: w.failed.Load()},
			Heap:    heap(), Goroutines: runtime.NumGoroutine(),
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3) // the parent has gone
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// heap is what live and dead objects take, in MiB.
func heap() float64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64()) / (1 << 20)
}

func newSQSClient(endpoint string) *awssqs.Client {
	return awssqs.New(awssqs.Options{BaseEndpoint: aws.String(endpoint), Region: "us-east-1", HTTPClient: sqstest.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("soak", "soak", "")})
}
