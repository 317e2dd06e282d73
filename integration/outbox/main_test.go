package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// childVariable holds a child's orders; in a process that has it, this test binary is a worker.
const childVariable = "ACKLEDGER_OUTBOX_WORKER"

// orders are what a worker process is told.
type orders struct {
	Database string
	Brokers  []string
	From, To string // topics
	Group    string
	Queue    string // URL; endpoint beside it
	Endpoint string
	Dies     float64 // how probable it is that the process dies once a broker has a batch
}

func TestMain(m *testing.M) {
	text := os.Getenv(childVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.work()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker failed:", err)
		os.Exit(1)
	}
}

// lethal kills its process now and then once a broker has taken a batch.
type lethal struct {
	consumer.Publisher
	dies float64
}

func (p lethal) Publish(ctx context.Context, messages []consumer.Publication) []error {
	errs := p.Publisher.Publish(ctx, messages)
	if rand.Float64() < p.dies {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return errs
}

func sqsClient(endpoint string) *awssqs.Client {
	return awssqs.New(awssqs.Options{HTTPClient: sqstest.HTTPClient(), BaseEndpoint: aws.String(endpoint), Region: "elasticmq",
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
}

// work is a worker process: it consumes, publishes and relays until SIGTERM.
func (o *orders) work() error {
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
	client, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	topic, err := kafka.NewPublisher(client, o.To)
	if err != nil {
		return err
	}
	queue, err := sqs.NewPublisher(sqsClient(o.Endpoint), o.Queue)
	if err != nil {
		return err
	}
	w, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.From), kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(time.Second),
	}, l, consumer.HandlerFunc(o.handle), &kafka.Config{CommitInterval: 200 * time.Millisecond, Options: consumer.Options{
		Concurrency: 8, Lease: 2 * time.Second, Attempts: 1000, BackoffBase: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
		Breaker: consumer.Breaker{Off: true},
		Relay: &consumer.Relay{Batch: 50, Lease: 3 * time.Second, Interval: 20 * time.Millisecond,
			Targets: map[string]consumer.Publisher{"topic": lethal{topic, o.Dies}, "queue": lethal{queue, o.Dies}}},
	}})
	if err != nil {
		return err
	}
	return consumer.Run(ctx, w)
}

var errUnlucky = errors.New("unlucky")

// handle has one effect and publishes it to both targets. One attempt of ten fails behind that, and what it published is marked.
func (o *orders) handle(ctx context.Context, m *consumer.Message) error {
	return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO effect (body) VALUES ($1)", string(m.Body)); err != nil {
			return err
		}
		body, unlucky := m.Body, rand.IntN(10) == 0
		if unlucky {
			body = append([]byte("rolled back: "), body...)
		}
		err := consumer.Publish(ctx, ledger.Outgoing{Target: "topic", Key: m.Key, Body: body}, ledger.Outgoing{Target: "queue", Key: m.Key, Body: body})
		if err == nil && unlucky {
			err = errUnlucky
		}
		return err
	})
}
