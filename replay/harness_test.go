package replay_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 30 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %s: %s", patience, what)
		}
	}
}

// book notes what the handler did, by body. While broken, it fails for good.
type book struct {
	mu     sync.Mutex
	broken func(*consumer.Message) error
	done   map[string]int
	seen   []consumer.Message
}

func (b *book) Handle(_ context.Context, m *consumer.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		if err := b.broken(m); err != nil {
			return err
		}
	}
	if b.done == nil {
		b.done = map[string]int{}
	}
	b.done[string(m.Body)]++
	b.seen = append(b.seen, *m)
	return nil
}

func (b *book) breaks(f func(*consumer.Message) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = f
}

func (b *book) breakAll() {
	b.breaks(func(*consumer.Message) error { return consumer.Terminal(errors.New("the bug")) })
}
func (b *book) mend()      { b.breaks(nil) }
func (b *book) count() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.done) }

func (b *book) effects() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.done)
}

func (b *book) bodies() (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.seen {
		out = append(out, string(b.seen[i].Body))
	}
	return out
}

// eachOnce says that the handler succeeded for exactly these bodies, once each.
func (b *book) eachOnce(t *testing.T, bodies []string) {
	t.Helper()
	got := b.effects()
	for _, body := range bodies {
		if got[body] != 1 {
			t.Errorf("%q was handled %d times", body, got[body])
		}
	}
	if len(got) != len(bodies) {
		t.Errorf("%d bodies were handled, want %d", len(got), len(bodies))
	}
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("order %04d", i)
	}
	return out
}

var by = ledger.By{Actor: "tester", Reason: "the bug is mended"}

// options are a worker's: everything that waits waits for little.
func options(name string, dead consumer.DeadLetterer) consumer.Options {
	return consumer.Options{
		Name: name, Lease: 10 * time.Second, Drain: 5 * time.Second, BackoffBase: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond,
		DeadLetter: dead, NoMaintenance: true,
	}
}

// run runs a worker until the returned function is called, or the test ends.
func run(t *testing.T, w consumer.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("worker: %v", err)
			}
		case <-time.After(patience):
			t.Error("the worker does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// queues are a source queue with its dead-letter queue, a ledger and a handler.
type queues struct {
	t           *testing.T
	server      *sqstest.Server
	client      *awssqs.Client
	source, dlq string // URLs
	names       [2]string
	fifo        bool
	ledger      *memory.Ledger
	book        *book
	change      func(*consumer.Options) // of the worker; may be nil
}

func newQueues(t *testing.T, fifo bool) *queues {
	t.Helper()
	q := &queues{t: t, server: sqstest.Start(t, nil), ledger: memory.New(), book: &book{}, fifo: fifo}
	q.client = q.server.Client()
	attributes, suffix := map[string]string{}, ""
	if fifo {
		suffix, attributes["FifoQueue"] = ".fifo", "true"
	}
	q.names = [2]string{"orders" + suffix, "orders-dead" + suffix}
	var err error
	if q.dlq, err = q.server.CreateQueue(q.names[1], attributes); err != nil {
		t.Fatal(err)
	}
	attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"100"}`, q.arn(q.names[1]))
	if q.source, err = q.server.CreateQueue(q.names[0], attributes); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *queues) arn(name string) string {
	q.t.Helper()
	url := strings.Replace(q.dlq, q.names[1], name, 1)
	out, err := q.client.GetQueueAttributes(q.t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: queueARN})
	if err != nil {
		q.t.Fatal(err)
	}
	return out.Attributes["QueueArn"]
}

// worker starts a worker that forwards its failures to the dead-letter queue.
func (q *queues) worker() (stop func()) {
	q.t.Helper()
	dead, err := sqs.NewDeadLetterQueue(q.client, q.dlq)
	if err != nil {
		q.t.Fatal(err)
	}
	c := &sqs.Config{Options: options("shop", dead), VisibilityTimeout: 4 * time.Second, WaitTime: time.Second}
	if q.change != nil {
		q.change(&c.Options)
	}
	w, err := sqs.NewWorker(q.client, q.source, q.ledger, q.book, c)
	if err != nil {
		q.t.Fatal(err)
	}
	return run(q.t, w)
}

func (q *queues) send(url string, in awssqs.SendMessageInput) {
	q.t.Helper()
	in.QueueUrl = &url
	if _, err := q.client.SendMessage(q.t.Context(), &in); err != nil {
		q.t.Fatal(err)
	}
}

// fail sends messages that all end in the dead-letter queue, and mends the bug.
func (q *queues) fail(bodies []string) {
	q.t.Helper()
	q.book.breakAll()
	for i, body := range bodies {
		in := awssqs.SendMessageInput{MessageBody: &body}
		if q.fifo {
			in.MessageGroupId, in.MessageDeduplicationId = aws.String(fmt.Sprintf("group-%d", i%3)), aws.String(rand.Text())
		}
		q.send(q.source, in)
	}
	stop := q.worker()
	eventually(q.t, "all are dead letters", func() bool {
		return q.server.Counts(q.names[1]).Depth() == len(bodies) && q.server.Counts(q.names[0]).Depth() == 0
	})
	stop()
	q.book.mend()
}

func (q *queues) fromQueue() replay.Source {
	q.t.Helper()
	s, err := sqs.NewReplaySource(q.client, q.dlq, 2*time.Second)
	if err != nil {
		q.t.Fatal(err)
	}
	return s
}

func (q *queues) toSource() replay.Target {
	q.t.Helper()
	target, err := sqs.NewReplayTarget(q.client, q.source)
	if err != nil {
		q.t.Fatal(err)
	}
	return target
}

// replay runs a replay that must end well.
func (q *queues) replay(src replay.Source, dst replay.Target, change ...func(*replay.Config)) replay.Report {
	q.t.Helper()
	return replayAll(q.t, q.ledger, src, dst, change...)
}

func replayAll(t *testing.T, op ledger.Operator, src replay.Source, dst replay.Target, change ...func(*replay.Config)) replay.Report {
	t.Helper()
	c := replay.Config{By: by}
	for _, f := range change {
		f(&c)
	}
	report, err := replay.Run(t.Context(), op, src, dst, c)
	if err != nil {
		t.Fatalf("replay: %v\n%s", err, report.Text())
	}
	t.Log(report.Text())
	return report
}

// topics are a source topic with its dead-letter topic, a ledger and a handler.
type topics struct {
	t           *testing.T
	seeds       kgo.Opt
	client      *kgo.Client
	source, dlq string
	group       string
	ledger      *memory.Ledger
	book        *book
}

func newTopics(t *testing.T) *topics {
	t.Helper()
	s := &topics{t: t, source: "orders-" + rand.Text(), dlq: "dead-" + rand.Text(), group: "shop-" + rand.Text(), ledger: memory.New(), book: &book{}}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, s.source, s.dlq))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s.seeds = kgo.SeedBrokers(cluster.ListenAddrs()...)
	if s.client, err = kgo.NewClient(s.seeds); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

func (s *topics) worker(change ...func(*kafka.Config)) (stop func()) {
	s.t.Helper()
	return s.workerOf(s.group, change...)
}

func (s *topics) workerOf(group string, change ...func(*kafka.Config)) (stop func()) {
	s.t.Helper()
	dead, err := kafka.NewDeadLetterTopic(s.client, s.dlq)
	if err != nil {
		s.t.Fatal(err)
	}
	c := &kafka.Config{Options: options("", dead), CommitInterval: 20 * time.Millisecond}
	c.Window = 90 * 24 * time.Hour
	for _, f := range change {
		f(c)
	}
	w, err := kafka.NewWorker([]kgo.Opt{s.seeds, kgo.ConsumerGroup(group), kgo.ConsumeTopics(s.source)}, s.ledger, s.book, c)
	if err != nil {
		s.t.Fatal(err)
	}
	return run(s.t, w)
}

func (s *topics) produce(records ...*kgo.Record) {
	s.t.Helper()
	if err := s.client.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// fail produces records that all end in the dead-letter topic, and mends the bug.
func (s *topics) fail(records []*kgo.Record) {
	s.t.Helper()
	s.book.breakAll()
	s.produce(records...)
	stop := s.worker()
	eventually(s.t, "all are dead letters", func() bool { return s.depth(s.dlq) == int64(len(records)) && s.lag(s.group) == 0 })
	stop()
	s.book.mend()
}

func (s *topics) records(bodies []string) []*kgo.Record {
	out := make([]*kgo.Record, len(bodies))
	for i, body := range bodies {
		out[i] = &kgo.Record{Topic: s.source, Key: fmt.Appendf(nil, "key-%d", i%5), Value: []byte(body)}
	}
	return out
}

func (s *topics) depth(topic string) (n int64) {
	s.t.Helper()
	ends, err := kadm.NewClient(s.client).ListEndOffsets(s.t.Context(), topic)
	if err != nil {
		s.t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// lag is how many records of the source the group has not committed; -1: it has committed nothing yet.
func (s *topics) lag(group string) int64 {
	s.t.Helper()
	offsets, err := kadm.NewClient(s.client).FetchOffsets(s.t.Context(), group)
	if err != nil {
		return -1
	}
	n := s.depth(s.source)
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == s.source {
			n -= max(o.At, 0)
		}
	})
	return n
}

func (s *topics) fromTopic() replay.Source {
	s.t.Helper()
	src, err := kafka.NewReplaySource([]kgo.Opt{s.seeds}, s.dlq)
	if err != nil {
		s.t.Fatal(err)
	}
	return src
}

func (s *topics) toSource() replay.Target {
	s.t.Helper()
	dst, err := kafka.NewReplayTarget(s.client, &kafka.ReplayTargetOptions{Topics: []string{s.source}})
	if err != nil {
		s.t.Fatal(err)
	}
	return dst
}

func (s *topics) inPlace() replay.Target {
	s.t.Helper()
	return inPlace(s.t, s.group, s.book)
}

func inPlace(t *testing.T, name string, h consumer.Handler) replay.Target {
	t.Helper()
	dst, err := replay.InPlace(h, &replay.InPlaceOptions{Options: options(name, nil)})
	if err != nil {
		t.Fatal(err)
	}
	return dst
}

func (s *topics) replay(src replay.Source, dst replay.Target, change ...func(*replay.Config)) replay.Report {
	s.t.Helper()
	return replayAll(s.t, s.ledger, src, dst, change...)
}

// audits counts audit rows by action.
func audits(t *testing.T, op ledger.Operator) map[ledger.Action]int {
	t.Helper()
	out := map[ledger.Action]int{}
	for a, err := range op.Audits(t.Context(), ledger.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		out[a.Action]++
	}
	return out
}
