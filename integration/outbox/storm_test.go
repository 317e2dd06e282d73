package outbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/sqs"
)

// keys is how many keys the messages of the storm have.
const keys = 40

// patience is for how long nothing may move.
const patience = 2 * time.Minute

// storm is a storm and its oracle.
type storm struct {
	*testing.T
	orders
	n      int // messages
	pool   *pgxpool.Pool
	client *kgo.Client

	mu      sync.Mutex
	workers map[int]*exec.Cmd
	started int
	killed  int
}

func newStorm(t *testing.T, n int) *storm {
	t.Helper()
	services.NeedServers(t)
	db := services.Postgres(t)
	brokers := services.Kafka(t)
	s := &storm{T: t, n: n, workers: map[int]*exec.Cmd{}}
	s.orders = orders{Database: db.URL, Brokers: brokers, From: services.Name(t), To: services.Name(t), Group: services.Name(t),
		Endpoint: services.ElasticMQ(t), Dies: 0.01}
	config, err := pgx.ParseConfig(db.URL)
	if err == nil {
		err = postgres.Migrate(t.Context(), config, "")
	}
	if err == nil {
		s.pool, err = pgxpool.New(t.Context(), db.URL)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	for _, table := range []string{"effect", "consumed"} {
		if _, err := s.pool.Exec(t.Context(), "CREATE TABLE "+table+" (num bigserial, source text, body text)"); err != nil {
			t.Fatal(err)
		}
	}
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(brokers...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	adm := kadm.NewClient(s.client)
	if _, err := adm.CreateTopics(t.Context(), 4, 1, nil, s.From, s.To); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = adm.DeleteTopics(context.Background(), s.From, s.To) })
	q := sqsClient(s.Endpoint)
	out, err := q.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: aws.String(services.Name(t) + ".fifo"),
		Attributes: map[string]string{"FifoQueue": "true", "VisibilityTimeout": "30"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Queue = *out.QueueUrl
	t.Cleanup(func() {
		_, _ = q.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: &s.Queue})
	})
	return s
}

// work starts a worker process.
func (s *storm) work() {
	s.Helper()
	text, err := json.Marshal(s.orders)
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	if err := services.StartChild(cmd); err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	id := s.started
	s.workers[id] = cmd
	go func() {
		_ = cmd.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.workers, id)
		s.killed++
	}()
}

// kill kills one of the workers.
func (s *storm) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.workers {
		_ = cmd.Process.Kill() // it may have ended
		return
	}
}

func (s *storm) alive() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.workers) }

func (s *storm) count(sql string) (n int) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), sql).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// produce sends the messages: number i of key i % keys, in order.
func (s *storm) produce() {
	s.Helper()
	var sent sync.WaitGroup
	for i := range s.n {
		sent.Add(1)
		s.client.Produce(s.Context(), &kgo.Record{Topic: s.From, Key: fmt.Appendf(nil, "key %d", i%keys), Value: fmt.Appendf(nil, "%d", i)},
			func(_ *kgo.Record, err error) {
				if err != nil {
					s.Error(err)
				}
				sent.Done()
			})
	}
	sent.Wait()
}

// rage kills workers and starts others until all is done, the last ones in peace. The next is killed once there was progress, however slow
// the machine is.
func (s *storm) rage() {
	s.Helper()
	const crew = 3
	end, next := time.Now().Add(patience), time.Now()
	killedAt, last := 0, [2]int{}
	for raging := true; ; {
		for s.alive() < crew {
			s.work()
		}
		done, waiting := s.count("SELECT count(*) FROM effect"), s.count("SELECT count(*) FROM ackledger.outbox")
		if raging && done > s.n*9/10 {
			raging = false
		}
		if done >= s.n && waiting == 0 {
			break
		}
		if now := [2]int{done, waiting}; now != last {
			last, end = now, time.Now().Add(patience)
		}
		if time.Now().After(end) {
			s.Fatalf("%d of %d effects, %d wait in the outbox, and nothing moves", done, s.n, waiting)
		}
		if raging && time.Now().After(next) && done >= killedAt+s.n/100 {
			s.kill()
			killedAt, next = done, time.Now().Add(time.Second+rand.N(2*time.Second))
		}
		time.Sleep(50 * time.Millisecond)
	}
	for s.alive() > 0 {
		s.kill()
		time.Sleep(10 * time.Millisecond)
	}
}

// log checks what lies in the topic, and returns how many records are there.
func (s *storm) log() int {
	s.Helper()
	ends, err := kadm.NewClient(s.client).ListEndOffsets(s.Context(), s.To)
	if err != nil {
		s.Fatal(err)
	}
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	reader, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ConsumeTopics(s.To), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.Fatal(err)
	}
	defer reader.Close()
	seen, last, n := map[string]int{}, map[string]int{}, int64(0)
	for n < total {
		f := reader.PollFetches(s.Context())
		if err := f.Err(); err != nil {
			s.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			n++
			body := string(r.Value)
			if seen[body]++; seen[body] > 1 {
				return
			}
			var num int
			if _, err := fmt.Sscan(body, &num); err != nil {
				s.Errorf("without its commit: %q", body)
				return
			}
			if before, ok := last[string(r.Key)]; ok && num < before {
				s.Errorf("%s: %d behind %d", r.Key, num, before)
			}
			last[string(r.Key)] = num
		})
	}
	if len(seen) != s.n {
		s.Errorf("%d messages in the topic, want %d", len(seen), s.n)
	}
	return int(total)
}

// consumes runs workers of the two targets until each message was handled, and compares.
func (s *storm) consumes() {
	s.Helper()
	l, err := postgres.New(s.Context(), s.pool, nil)
	if err != nil {
		s.Fatal(err)
	}
	defer l.Close()
	handler := func(source string) consumer.Handler {
		return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO consumed (source, body) VALUES ($1, $2)", source, string(m.Body))
				return err
			})
		})
	}
	topic, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(s.Brokers...), kgo.ConsumerGroup(s.Group + "-2"), kgo.ConsumeTopics(s.To)}, l,
		handler("topic"), nil)
	if err != nil {
		s.Fatal(err)
	}
	queue, err := sqs.NewWorker(sqsClient(s.Endpoint), s.Queue, l, handler("queue"), &sqs.Config{Options: consumer.Options{Name: "second"},
		VisibilityTimeout: 30 * time.Second})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	var over sync.WaitGroup
	over.Go(func() {
		if err := consumer.Run(ctx, topic, queue); err != nil {
			s.Error(err)
		}
	})
	for end := time.Now().Add(3 * time.Minute); s.count("SELECT count(DISTINCT (source, body)) FROM consumed") < 2*s.n; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.Errorf("%d of the topic and %d of the queue were consumed, want %d of each",
				s.count("SELECT count(DISTINCT body) FROM consumed WHERE source = 'topic'"),
				s.count("SELECT count(DISTINCT body) FROM consumed WHERE source = 'queue'"), s.n)
			break
		}
	}
	cancel()
	over.Wait()
	if n := s.count("SELECT count(*) - count(DISTINCT (source, body)) FROM consumed"); n > 0 {
		s.Errorf("%d messages were handled twice", n)
	}
	if n := s.count("SELECT count(*) FROM consumed WHERE body LIKE 'rolled back%'"); n > 0 {
		s.Errorf("%d messages came without their commit", n)
	}
	s.order("queue")
}

// order checks the order in which the messages of each key were consumed.
func (s *storm) order(source string) {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), "SELECT body FROM consumed WHERE source = $1 ORDER BY num", source)
	if err != nil {
		s.Fatal(err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Fatal(err)
	}
	last := map[int]int{}
	for _, body := range bodies {
		var num int
		if _, err := fmt.Sscan(body, &num); err != nil {
			continue
		}
		if before, ok := last[num%keys]; ok && num < before {
			s.Errorf("%s: %d behind %d", source, num, before)
		}
		last[num%keys] = num
	}
}

func TestStorm(t *testing.T) {
	n := 2000
	if os.Getenv("ACKLEDGER_LONG") != "" {
		n = 100_000
	}
	s := newStorm(t, n)
	s.produce()
	s.rage()
	if got := s.count("SELECT count(*) FROM effect"); got != n {
		t.Errorf("%d effects, want %d", got, n)
	}
	sent := s.log()
	s.consumes()
	t.Logf("%d messages, %d workers killed, %d records in the topic: %d were sent twice", n, s.killed, sent, sent-n)
	if sent == n {
		t.Log(strings.ToUpper("no record was sent twice: the storm was mild"))
	}
}
