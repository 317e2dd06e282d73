package sqs

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap/zaptest"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// TestMain lets many tests wait at once: they wait for timeouts, and compute little.
func TestMain(m *testing.M) {
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n.Value.String() == n.DefValue {
		_ = flag.Set("test.parallel", "16") // a number is never refused
	}
	os.Exit(m.Run())
}

// site is a server with a queue of the test's own, its dead-letter queue, and a ledger.
type site struct {
	t      *testing.T
	srv    *sqstest.Server
	client *sqs.Client
	name   string
	url    string
	ledger *memory.Ledger

	mu    sync.Mutex
	calls []sqstest.Call
}

// newSite makes a queue whose messages are dead-lettered after the given number of receives; kind is "" or ".fifo".
func newSite(t *testing.T, kind string, maxReceives int, options ...func(*sqstest.Options)) *site {
	t.Helper()
	t.Parallel()
	return newSiteAlone(t, kind, maxReceives, options...)
}

// newSiteAlone is newSite for a test that runs beside no other, such as one that reads the process's heap.
func newSiteAlone(t *testing.T, kind string, maxReceives int, options ...func(*sqstest.Options)) *site {
	t.Helper()
	s := &site{t: t, ledger: memory.New(), name: "q-" + rand.Text()[:10] + kind}
	o := sqstest.Options{Observe: s.observe}
	for _, set := range options {
		set(&o)
	}
	s.srv = sqstest.Start(t, &o)
	s.client = s.srv.Client(func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} })
	s.create("dead-"+s.name, nil)
	s.url = s.create(s.name, map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, s.arn("dead-"+s.name), maxReceives),
	})
	return s
}

func (s *site) create(name string, attributes map[string]string) string {
	s.t.Helper()
	url, err := s.srv.CreateQueue(name, attributes)
	if err != nil {
		s.t.Fatal(err)
	}
	return url
}

func (s *site) arn(name string) string {
	s.t.Helper()
	out, err := s.client.GetQueueUrl(s.t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := s.client.GetQueueAttributes(s.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: out.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all.Attributes["QueueArn"]
}

func (s *site) observe(c sqstest.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// seen returns the calls of an action on the queue so far.
func (s *site) seen(action string) []sqstest.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []sqstest.Call
	for _, c := range s.calls {
		if c.Action == action && c.Queue == s.name {
			out = append(out, c)
		}
	}
	return out
}

// visibilities are the visibility timeouts that were asked for, in order, with success or without.
func (s *site) visibilities() []int {
	var out []int
	for _, c := range s.seen("ChangeMessageVisibilityBatch") {
		for _, e := range c.Entries {
			out = append(out, e.VisibilityTimeout)
		}
	}
	return out
}

// send sends messages with these bodies; in a FIFO queue, to the group that is named before the first colon.
func (s *site) send(bodies ...string) (ids []string) {
	s.t.Helper()
	for first := 0; first < len(bodies); first += maxBatch {
		batch := bodies[first:min(first+maxBatch, len(bodies))]
		entries := make([]types.SendMessageBatchRequestEntry, len(batch))
		for i, b := range batch {
			entries[i] = types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &batch[i]}
			if strings.HasSuffix(s.name, ".fifo") {
				group, _, _ := strings.Cut(b, ":")
				entries[i].MessageGroupId, entries[i].MessageDeduplicationId = &group, aws.String(rand.Text())
			}
		}
		out, err := s.client.SendMessageBatch(s.t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &s.url, Entries: entries})
		if err != nil || len(out.Failed) > 0 {
			s.t.Fatalf("send: %v, %v", err, out)
		}
		for _, e := range out.Successful {
			ids = append(ids, *e.MessageId)
		}
	}
	return ids
}

// numbers are n bodies with a prefix.
func numbers(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return out
}

// quick are settings for tests that do not wait long: a visibility timeout of 2 s, a poll of 1 s. The lease is one that a
// machine which stalls keeps.
func quick() *Config {
	return &Config{
		Options: consumer.Options{
			Name: "tests", Lease: 10 * time.Second, Drain: 5 * time.Second,
			BackoffBase: time.Millisecond, BackoffMax: 20 * time.Millisecond,
		},
		VisibilityTimeout: 2 * time.Second,
	}
}

// steady is quick for tests that a machine which stalls for a few seconds must not fail: what must stay hidden, or owned,
// is so for that long without a sign of life.
func steady() *Config {
	c := quick()
	c.Lease, c.VisibilityTimeout = 10*time.Second, 10*time.Second
	return c
}

// outlasts is longer than the lease and the visibility timeout of steady.
const outlasts = 12 * time.Second

// worker builds a worker; a nil Config is quick.
func (s *site) worker(h consumer.HandlerFunc, c *Config) *Worker {
	s.t.Helper()
	if c == nil {
		c = quick()
	}
	if c.Logger == nil {
		c.Logger = zaptest.NewLogger(s.t)
	}
	w, err := NewWorker(s.client, s.url, s.ledger, h, c)
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// running is a worker that runs.
type running struct {
	*Worker
	t    *testing.T
	done chan struct{}
	err  error
	stop context.CancelFunc
}

func (s *site) start(h consumer.HandlerFunc, c *Config) *running {
	s.t.Helper()
	return runWorker(s.t, s.worker(h, c))
}

func runWorker(t *testing.T, w *Worker) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Worker: w, t: t, done: make(chan struct{}), stop: cancel}
	go func() {
		defer close(r.done)
		r.err = w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); _ = r.wait() })
	return r
}

// wait waits for the end of Run and returns its error.
func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(60 * time.Second):
		r.t.Error("Run does not end")
		return errors.New("stuck")
	}
}

// end stops the worker and expects a clean drain.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := r.wait(); err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

// pollsNoMore waits until a worker that is paused or stopped has no poll open.
func (r *running) pollsNoMore() {
	r.t.Helper()
	eventually(r.t, "the worker polls no more", func() bool {
		r.polls.mu.Lock()
		defer r.polls.mu.Unlock()
		return r.polls.open == 0
	})
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // the poll interval of a condition with a deadline
	}
}

// always holds a condition for a while that no event ends.
func always(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !ok() {
			t.Fatalf("does not hold: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // the poll interval of a condition with a deadline
	}
}

// empty waits until the queue holds nothing.
func (s *site) empty() {
	s.t.Helper()
	eventually(s.t, "the queue is empty", func() bool { return s.srv.Counts(s.name).Depth() == 0 })
}

// delete deletes the queue.
func (s *site) delete() {
	s.t.Helper()
	if _, err := s.client.DeleteQueue(s.t.Context(), &sqs.DeleteQueueInput{QueueUrl: &s.url}); err != nil {
		s.t.Fatal(err)
	}
}

// noDead says that nothing went to the dead-letter queue.
func (s *site) noDead() {
	s.t.Helper()
	if n := s.srv.Counts("dead-" + s.name).Depth(); n > 0 {
		s.t.Errorf("%d messages went to the dead-letter queue", n)
	}
}

// book counts what handlers did.
type book struct {
	mu   sync.Mutex
	runs map[string]int
	list []string
}

func newBook() *book { return &book{runs: map[string]int{}} }

func (b *book) add(m *consumer.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs[string(m.Body)]++
	b.list = append(b.list, string(m.Body))
}

func (b *book) handle(_ context.Context, m *consumer.Message) error { b.add(m); return nil }

func (b *book) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs)
}

func (b *book) count(body string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs[body]
}

// once says that each body was handled exactly once, and nothing else.
func (b *book) once(t *testing.T, bodies []string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range bodies {
		if b.runs[v] != 1 {
			t.Errorf("%q was handled %d times", v, b.runs[v])
		}
	}
	if len(b.runs) != len(bodies) {
		t.Errorf("%d messages were handled, want %d", len(b.runs), len(bodies))
	}
}

// inOrder says that the bodies of each group (the text before the first colon) were begun in the order of their names.
func (b *book) inOrder(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	last := map[string]string{}
	for _, body := range b.list {
		group, _, _ := strings.Cut(body, ":")
		if body < last[group] {
			t.Errorf("%q was handled after %q", body, last[group])
		}
		last[group] = body
	}
}

// record is the ledger's row of a message.
func (s *site) record(w *Worker, id string) ledger.Record {
	s.t.Helper()
	r, err := s.ledger.Get(context.Background(), ledger.Key{Scope: scopeOf(s.arn(s.name), w.set.Name), ID: []byte(id)})
	if err != nil {
		s.t.Fatalf("message %s: %v", id, err)
	}
	return r
}

// gate is a handler that waits until it is opened.
type gate struct {
	book
	open chan struct{}
	once sync.Once
}

func newGate() *gate { return &gate{book: book{runs: map[string]int{}}, open: make(chan struct{})} }

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

func (g *gate) handle(ctx context.Context, m *consumer.Message) error {
	g.add(m)
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
