package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/sqs"
)

// workerVariable makes this program a worker; its value is a setup.
const workerVariable = "ACKLEDGER_DEMO_WORKER"

// setup is what a worker needs to know.
type setup struct {
	Ledger   string   `json:"ledger"`
	Endpoint string   `json:"endpoint"`
	QueueURL string   `json:"queue_url"`
	Kafka    []string `json:"kafka"`
}

// runWorker consumes both brokers until SIGTERM. Its parent reads its events from standard output, and holds its
// standard input open: when that ends, the parent is gone.
func runWorker(config string) error {
	var s setup
	if err := json.Unmarshal([]byte(config), &s); err != nil {
		return fmt.Errorf("%s: %w", workerVariable, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	l, err := sqlite.Open(ctx, s.Ledger, nil)
	if err != nil {
		return err
	}
	defer l.Close()

	fromSQS := reporter{"sqs", os.Stdout}
	client := awssqs.New(awssqs.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("demo", "demo", ""),
	})
	first, err := sqs.NewWorker(client, s.QueueURL, counting{l, fromSQS}, charge(fromSQS), &sqs.Config{
		Options: options(fromSQS, groupName), VisibilityTimeout: 5 * time.Second, WaitTime: time.Second,
	})
	if err != nil {
		return err
	}
	fromKafka := reporter{"kafka", os.Stdout}
	second, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(s.Kafka...), kgo.ConsumerGroup(groupName), kgo.ConsumeTopics(topicName),
		kgo.InstanceID("demo-worker"), // a static member: the next process has its partitions at once
	}, counting{l, fromKafka}, charge(fromKafka), &kafka.Config{Options: options(fromKafka, "")})
	if err != nil {
		return err
	}
	return consumer.Run(ctx, first, second)
}

// options are short in time, so that the demo is: production keeps the defaults.
func options(r reporter, name string) consumer.Options {
	return consumer.Options{
		Name: name, Concurrency: 8, ClaimAhead: 50,
		Lease: time.Second, BackoffBase: 100 * time.Millisecond, BackoffMax: time.Second,
		// The business key. It is asked once for every delivery, so it counts them, too.
		KeyFunc: func(m *consumer.Message) (string, error) {
			r.tell(delivered, 1)
			id, ok := m.Header(idHeader)
			if !ok {
				return "", errors.New("no header " + idHeader)
			}
			return string(id), nil
		},
	}
}

// charge is the handler: the charge and the message's success are committed together, or neither is.
func charge(r reporter) consumer.Handler {
	pay := consumer.JSON(func(ctx context.Context, o order) error {
		if consumer.MessageFrom(ctx).Attempt <= o.Declines {
			return errors.New("the payment was declined")
		}
		return sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, insertCharge, r.broker, o.ID, o.Cents)
			return err
		})
	})
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		r.tell(ran, 1)
		err := pay.Handle(ctx, m)
		if err != nil && !consumer.IsTerminal(err) {
			r.tell(declined, 1)
		}
		return err
	})
}
