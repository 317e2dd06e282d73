package life_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// lanes is how many programs live at once. A worker of SQS waits for its open polls when it stops, a second at least, so
// one after the other would take that long each.
const lanes = 16

// cycles is how often a program starts and stops.
func cycles() int64 {
	if os.Getenv("ACKLEDGER_LONG") != "" {
		return 1000
	}
	return 100
}

// TestStartStop starts and stops programs in this process: each opens a ledger in a file, runs a worker of either broker
// until both have handled a message, and drains. Afterwards no goroutine, no open file and no connection is left.
func TestStartStop(t *testing.T) {
	before := goleak.IgnoreCurrent()
	files := openFiles(t)
	queues, err := sqstest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var topics []string
	for lane := range lanes {
		topics = append(topics, fmt.Sprint("life-", lane))
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...))
	if err != nil {
		t.Fatal(err)
	}
	var begun atomic.Int64
	var g errgroup.Group
	for _, name := range topics {
		s, err := newSite(t, queues, cluster, name)
		if err != nil {
			t.Fatal(err)
		}
		g.Go(func() error {
			defer s.producer.Close()
			for n := begun.Add(1); n <= cycles(); n = begun.Add(1) {
				if err := s.live(t.Context(), n); err != nil {
					return fmt.Errorf("cycle %d: %w", n, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	queues.Close()
	cluster.Close()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	left := openFiles(t)
	for deadline := time.Now().Add(10 * time.Second); left > files && time.Now().Before(deadline); left = openFiles(t) {
		time.Sleep(10 * time.Millisecond) // connections that were closed a moment ago
	}
	if left > files {
		t.Errorf("%d files and connections are open after %d cycles, %d were before", left, cycles(), files)
	}
}

// site is what one program after the other is started on.
type site struct {
	client   *awssqs.Client
	queue    string
	cluster  *kfake.Cluster
	producer *kgo.Client
	topic    string
	file     string // of the ledger
}

func newSite(t *testing.T, queues *sqstest.Server, cluster *kfake.Cluster, name string) (*site, error) {
	t.Helper()
	s := &site{client: queues.Client(), cluster: cluster, topic: name, file: filepath.Join(t.TempDir(), "ledger.db")}
	made, err := s.client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &s.topic})
	if err != nil {
		return nil, err
	}
	s.queue = *made.QueueUrl
	s.producer, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(s.topic))
	return s, err
}

// live is one program, from its start to its end.
func (s *site) live(ctx context.Context, n int64) (err error) {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	body := fmt.Sprint("message ", n)
	if err := s.producer.ProduceSync(ctx, kgo.StringRecord(body)).FirstErr(); err != nil {
		return err
	}
	if _, err := s.client.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: &s.queue, MessageBody: aws.String(body)}); err != nil {
		return err
	}
	l, err := sqlite.Open(ctx, s.file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var handled atomic.Int64
	running, drain := context.WithCancel(ctx)
	defer drain()
	both := consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		if string(m.Body) == body && handled.Add(1) == 2 {
			drain()
		}
		return nil
	})
	options := consumer.Options{Drain: 10 * time.Second}
	fromTopic, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.ConsumerGroup(s.topic), kgo.ConsumeTopics(s.topic), kgo.FetchMaxWait(100 * time.Millisecond),
	}, l, both, &kafka.Config{Options: options})
	if err != nil {
		return err
	}
	options.Name = "life"
	fromQueue, err := sqs.NewWorker(s.client, s.queue, l, both, &sqs.Config{Options: options, WaitTime: time.Second, MaxPollers: 2})
	if err != nil {
		return err
	}
	if err := consumer.Run(running, fromTopic, fromQueue); err != nil {
		return err
	}
	if handled.Load() != 2 {
		return fmt.Errorf("%d handlers saw the messages, want 2: %w", handled.Load(), context.Cause(ctx))
	}
	return nil
}

// openFiles counts this process' open files and connections.
func openFiles(t *testing.T) int {
	t.Helper()
	dir := "/dev/fd" // of every Unix
	if runtime.GOOS == "linux" {
		dir = "/proc/self/fd"
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("count the open files: %v", err)
	}
	return len(list)
}
