package storm_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// childVariable holds a child's orders; in a process that has it, this test binary is a worker.
const childVariable = "ACKLEDGER_STORM_WORKER"

// orders are what a worker process is told.
type orders struct {
	Name     string   // of the process, in its effects
	Database string   // URL
	Brokers  []string // Kafka, or:
	Topic    string
	Group    string
	Audit    kafka.Audit
	Share    bool   // a share group
	Queue    string // SQS: URL, endpoint beside it
	Endpoint string
	Work     time.Duration // how long a handler works beside its effect
	Die      step          // where the process kills itself, once half of its messages are done
	Half     int
	Poison   string // a body that kills the process
	Limit    int    // handlers that run at once, of all processes; 0: any number
}

// The lease is short so that the work of a killed process is taken over soon; so are Kafka's session and SQS's
// visibility.
const (
	lease      = 3 * time.Second
	visibility = 10 * time.Second
	session    = 6 * time.Second
)

func TestMain(m *testing.M) {
	text := os.Getenv(childVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = work(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker", o.Name, "failed:", err)
		os.Exit(1)
	}
}

// work is a worker process: it runs until SIGTERM.
func work(o orders) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("ready") // before this, SIGTERM just ends the process
	config := zap.NewProductionConfig()
	config.InitialFields = map[string]any{"process": o.Name}
	log, err := config.Build()
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, o.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := postgres.New(ctx, pool, &postgres.Config{Logger: log})
	if err != nil {
		return err
	}
	defer l.Close()
	options := consumer.Options{
		Concurrency: 8, Lease: lease, Drain: 10 * time.Second, Attempts: 1000,
		BackoffBase: 50 * time.Millisecond, BackoffMax: time.Second, Logger: log,
	}
	if o.Limit > 0 {
		options.Limit = func(*consumer.Message) (string, int) { return "storm", o.Limit }
	}
	var w consumer.Worker
	switch {
	case o.Share:
		w, err = shareWorker(o, options, l)
	case o.Topic != "":
		w, err = kafkaWorker(o, options, l)
	default:
		w, err = sqsWorker(o, options, l)
	}
	if err != nil {
		return err
	}
	return consumer.Run(ctx, w)
}

func kafkaWorker(o orders, options consumer.Options, l *postgres.Ledger) (consumer.Worker, error) {
	return kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topic), kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(time.Second),
	}, l, handler(o), &kafka.Config{Options: options, Audit: o.Audit, CommitInterval: 200 * time.Millisecond, RevokeDrain: 5 * time.Second})
}

func shareWorker(o orders, options consumer.Options, l *postgres.Ledger) (consumer.Worker, error) {
	options.Attempts = shareAttempts
	return kafka.NewShareWorker([]kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.ShareGroup(o.Group), kgo.ConsumeTopics(o.Topic), kgo.ShareMaxRecords(20),
	}, l, handler(o), &kafka.ShareConfig{Options: options})
}

func sqsWorker(o orders, options consumer.Options, l *postgres.Ledger) (consumer.Worker, error) {
	options.Name = o.Group
	return sqs.NewWorker(dying{sqsClient(o.Endpoint), o}, o.Queue, l, handler(o), &sqs.Config{
		Options: options, VisibilityTimeout: visibility, WaitTime: 2 * time.Second,
	})
}

func sqsClient(endpoint string) *awssqs.Client {
	return awssqs.New(awssqs.Options{
		HTTPClient:   sqstest.HTTPClient(),
		BaseEndpoint: aws.String(endpoint), Region: "elasticmq",
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
}

// handler writes one effect, and says when it began: to a table, if the database is there, in the transaction.
func handler(o orders) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		defer o.tellRun(ctx, m.ID)()
		fmt.Printf("begin %d\n", time.Now().UnixNano())
		if o.Work > 0 {
			select {
			case <-time.After(o.Work):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if o.Poison != "" && string(m.Body) == o.Poison {
			o.die()
		}
		o.dieAt(beforeEffect)
		err := postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO effect (message, body, grp, part, off, process) VALUES ($1, $2, $3, $4, $5, $6)`,
				m.ID, string(m.Body), m.Group, m.Partition, m.Offset, o.Name)
			o.dieAt(beforeCommit)
			return err
		})
		o.dieAt(afterCommit)
		return err
	})
}
