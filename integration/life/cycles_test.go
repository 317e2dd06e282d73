package life_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/reliability"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
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

// opener opens a program's ledger, for the lane of that name.
type opener func(ctx context.Context, lane string) (l ledger.Ledger, closer func() error, err error)

// TestStartStop starts and stops programs in this process: each opens a ledger, runs a worker of either broker until both
// have handled a message, and drains. Afterwards no goroutine, no open file and no connection is left.
func TestStartStop(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		dir := t.TempDir()
		startStop(t, func(ctx context.Context, lane string) (ledger.Ledger, func() error, error) {
			l, err := sqlite.Open(ctx, filepath.Join(dir, lane+".db"), nil)
			if err != nil {
				return nil, nil, err
			}
			return l, l.Close, nil
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		db := services.Postgres(t)
		conn, err := pgx.ParseConfig(db.URL)
		if err == nil {
			err = postgres.Migrate(t.Context(), conn, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		startStop(t, func(ctx context.Context, _ string) (ledger.Ledger, func() error, error) {
			return openPostgres(ctx, db.URL)
		})
		noneConnected(t, db.URL)
	})
}

func openPostgres(ctx context.Context, url string) (ledger.Ledger, func() error, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	l, err := postgres.New(ctx, pool, &postgres.Config{MaxConns: 2})
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return l, func() error {
		l.Close()
		pool.Close()
		return nil
	}, nil
}

// noneConnected asks the server itself whether anybody is left on the database.
func noneConnected(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	left := -1
	for deadline := time.Now().Add(10 * time.Second); left != 0 && time.Now().Before(deadline); {
		const others = `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`
		if err := conn.QueryRow(t.Context(), others).Scan(&left); err != nil {
			t.Fatal(err)
		}
	}
	if left != 0 {
		t.Errorf("%d sessions are left on the server after %d cycles", left, cycles())
	}
}

func startStop(t *testing.T, open opener) {
	t.Helper()
	begun := time.Now()
	first, err := net.Listen("tcp", "127.0.0.1:0") // with it Go's runtime opens two files of its own, for good
	if err == nil {
		err = first.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
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
	var started atomic.Int64
	var g errgroup.Group
	for _, name := range topics {
		s, err := newSite(t, queues, cluster, name, open)
		if err != nil {
			t.Fatal(err)
		}
		g.Go(func() error {
			defer s.producer.Close()
			for n := started.Add(1); n <= cycles(); n = started.Add(1) {
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
	record(t, time.Since(begun))
}

// record writes what was run, if nothing was left.
func record(t *testing.T, took time.Duration) {
	t.Helper()
	t.Logf("%d cycles in %s", cycles(), took.Round(time.Second))
	page := reliability.Page()
	if page == "" || t.Failed() {
		return
	}
	_, store, _ := strings.Cut(t.Name(), "/")
	err := reliability.Row(page, "cycles", store, "sqstest and kfake, in process", reliability.Today(), strconv.FormatInt(cycles(), 10),
		took.Round(time.Second).String())
	if err != nil {
		t.Error(err)
	}
}

// site is what one program after the other is started on.
type site struct {
	client   *awssqs.Client
	queue    string
	cluster  *kfake.Cluster
	producer *kgo.Client
	topic    string
	open     opener
}

func newSite(t *testing.T, queues *sqstest.Server, cluster *kfake.Cluster, name string, open opener) (*site, error) {
	t.Helper()
	s := &site{client: queues.Client(), cluster: cluster, topic: name, open: open}
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
	l, closer, err := s.open(ctx, s.topic)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer()) }()
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
