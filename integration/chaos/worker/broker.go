package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/sqs"
)

// attempts is how often a message's handler may fail: far more often than a fine one's does.
const attempts = 30

func options(o *plan.Orders, log *zap.Logger) consumer.Options {
	return consumer.Options{
		Concurrency: 8, Lease: o.Lease, Drain: 8 * time.Second, Attempts: attempts, HandlerTimeout: 2 * time.Second,
		BackoffBase: 20 * time.Millisecond, BackoffMax: 300 * time.Millisecond, Logger: log, MaxHeld: 2000, ClaimAhead: 200,
		DeadLetterTries: 3, DeadLetterTimeout: time.Second, ParkAfter: time.Second,
	}
}

// newWorker builds the worker that the orders ask for; end closes the clients beside it.
func newWorker(o *plan.Orders, log *zap.Logger, s *store, h *handler) (w consumer.Worker, end func(), err error) {
	var does consumer.Handler = h
	if o.Batch {
		does = h.batches()
	}
	if o.Topic != "" {
		return kafkaWorker(o, log, s, h.page, does)
	}
	return sqsWorker(o, log, s, h.page, does)
}

func kafkaWorker(o *plan.Orders, log *zap.Logger, s *store, page *plan.Page, h consumer.Handler) (consumer.Worker, func(), error) {
	seeds := []kgo.Opt{kgo.SeedBrokers(o.Brokers...)}
	if o.Dial != "" {
		// Brokers are advertised under their own addresses: whatever the client dials, it gets the proxy.
		seeds = append(seeds, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, o.Dial)
		}))
	}
	producer, err := kgo.NewClient(seeds...)
	if err != nil {
		return nil, nil, err
	}
	target, err := kafka.NewDeadLetterTopic(producer, o.Dead)
	if err != nil {
		return nil, producer.Close, err
	}
	opts := append(seeds, kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topic))
	if o.KIP848 {
		opts = append(opts, kgo.ServerSideBalancer())
	} else {
		opts = append(opts, kgo.SessionTimeout(o.Window), kgo.HeartbeatInterval(time.Second))
	}
	c := &kafka.Config{Options: options(o, log), CommitInterval: 200 * time.Millisecond, RevokeDrain: 5 * time.Second}
	c.DeadLetter = flaky{target, o, page, new(atomic.Int64)}
	if o.Rows {
		c.Audit = kafka.AuditRows
	}
	if o.Parks && !o.Keyed {
		c.Order = kafka.OrderNone
	}
	if o.Reset {
		c.Reset = kafka.ResetEarliest
	}
	w, err := kafka.NewWorker(opts, s.ledger, h, c)
	return w, producer.Close, err
}

func sqsWorker(o *plan.Orders, log *zap.Logger, s *store, page *plan.Page, h consumer.Handler) (consumer.Worker, func(), error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, ResponseHeaderTimeout: 30 * time.Second}
	client := awssqs.New(awssqs.Options{
		BaseEndpoint: aws.String(o.Client), Region: "elasticmq", HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
	target, err := sqs.NewDeadLetterQueue(client, o.Dead)
	if err != nil {
		return nil, nil, err
	}
	c := &sqs.Config{Options: options(o, log), VisibilityTimeout: o.Window, WaitTime: 2 * time.Second}
	c.Name, c.DeadLetter = o.Group, flaky{target, o, page, new(atomic.Int64)}
	c.ParkGroups = o.Keyed
	w, err := sqs.NewWorker(client, o.Queue, s.ledger, h, c)
	return w, transport.CloseIdleConnections, err
}
