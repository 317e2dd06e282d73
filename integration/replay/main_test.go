package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// childVariable holds a child's orders; in a process that has it, this test binary is a replay.
const childVariable = "ACKLEDGER_REPLAY"

// stormer is who the audit is to name.
var stormer = ledger.By{Actor: "storm", Reason: "the bug is mended"}

// orders are what a replay process is told.
type orders struct {
	Database string // URL
	Consumer string
	// SQS:
	Endpoint, Queue, Dead string
	// Kafka:
	Brokers          []string
	Topic, DeadTopic string

	InPlace bool // through the handler, in that process
	Archive bool // from the ledger
	Rate    float64
}

const (
	lease = 3 * time.Second
	hide  = 3 * time.Second // what a replay receives is hidden for so long
)

func TestMain(m *testing.M) {
	text := os.Getenv(childVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = work(context.Background(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay failed:", err)
		os.Exit(1)
	}
}

// work is a replay process. It prints its report as a line of JSON.
func work(ctx context.Context, o orders) error {
	l, closeLedger, err := openLedger(ctx, o.Database)
	if err != nil {
		return err
	}
	defer closeLedger()
	src, dst, closeClients, err := ends(l, o)
	if err != nil {
		return err
	}
	defer closeClients()
	fmt.Println("ready")
	report, err := replay.Run(ctx, l, src, dst, replay.Config{
		By: stormer, Rate: o.Rate, StopAfter: 1000,
	})
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	return err
}

func openLedger(ctx context.Context, url string) (*postgres.Ledger, func(), error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	l, err := postgres.New(ctx, pool, nil)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return l, func() { l.Close(); pool.Close() }, nil
}

func ends(l *postgres.Ledger, o orders) (src replay.Source, dst replay.Target, end func(), err error) {
	end = func() {}
	var sourceErr, targetErr error
	if o.Queue != "" {
		client := sqsClient(o.Endpoint)
		src, sourceErr = sqs.NewReplaySource(client, o.Dead, hide)
		dst, targetErr = sqs.NewReplayTarget(client, o.Queue)
	} else {
		seeds := kgo.SeedBrokers(o.Brokers...)
		client, err := kgo.NewClient(seeds)
		if err != nil {
			return nil, nil, nil, err
		}
		end = client.Close
		src, sourceErr = kafka.NewReplaySource([]kgo.Opt{seeds}, o.DeadTopic)
		dst, targetErr = kafka.NewReplayTarget(client, &kafka.ReplayTargetOptions{Topics: []string{o.Topic}})
	}
	if o.Archive {
		src = replay.Archive(l)
	}
	if o.InPlace {
		dst, targetErr = replay.InPlace(handler(nil), &replay.InPlaceOptions{Options: options(o.Consumer)})
	}
	return src, dst, end, errors.Join(sourceErr, targetErr)
}

func options(name string) consumer.Options {
	return consumer.Options{
		Name: name, Concurrency: 8, Lease: lease, Drain: 5 * time.Second, BackoffBase: 50 * time.Millisecond, BackoffMax: time.Second,
		Breaker: consumer.Breaker{Off: true}, // thousands are to fail
	}
}

func sqsClient(endpoint string) *awssqs.Client {
	return awssqs.New(awssqs.Options{
		HTTPClient:   sqstest.HTTPClient(),
		BaseEndpoint: aws.String(endpoint), Region: "elasticmq", Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
}

// handler has one effect, in the transaction that says that the message succeeded. While buggy says so, it fails for good.
func handler(buggy func() bool) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		if buggy != nil && buggy() {
			return consumer.Terminal(errors.New("the bug"))
		}
		return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO effect (body) VALUES ($1)`, string(m.Body))
			return err
		})
	})
}
