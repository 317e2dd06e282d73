package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap/zaptest"
)

// site is a cluster with a topic and a group of the test's own.
type site struct {
	t       *testing.T
	brokers []string
	topic   string
	group   string
	opts    []kgo.Opt // for all of its workers
	ledger  *memory.Ledger
	audit   Audit          // of its workers
	fake    *kfake.Cluster // nil: a real one
	prod    *kgo.Client
	adm     *kadm.Client
}

// newName is different at every call.
func newName() string { return "t-" + strings.ToLower(rand.Text()[:12]) }

// fakeSite is an in-process cluster with one topic.
func fakeSite(t *testing.T, partitions int32, opts ...kfake.Opt) *site {
	t.Helper()
	topic := newName()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "200"})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := newSite(t, c.ListenAddrs(), topic)
	s.fake = c
	return s
}

func newSite(t *testing.T, brokers []string, topic string, opts ...kgo.Opt) *site {
	t.Helper()
	prod, err := kgo.NewClient(slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1),
	}, opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prod.Close)
	return &site{t: t, brokers: brokers, topic: topic, group: newName(), ledger: memory.New(), prod: prod, adm: kadm.NewClient(prod)}
}

// audits are the two ways in which the ledger may hold records: what is promised is promised for both.
var audits = map[string]Audit{"ranges": AuditRanges, "rows": AuditRows}

// inBoth plays a test with each.
func inBoth(t *testing.T, play func(*testing.T, Audit)) {
	t.Parallel()
	for name, audit := range audits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, audit)
		})
	}
}

// with sets what the ledger holds of the site's records.
func (s *site) with(audit Audit) *site {
	s.audit = audit
	return s
}

// send produces records with the given values to a partition, keyed by their value.
func (s *site) send(partition int32, values ...string) {
	s.t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: s.topic, Partition: partition, Key: []byte(v), Value: []byte(v)}
	}
	s.sendRecords(records...)
}

func (s *site) sendRecords(records ...*kgo.Record) {
	s.t.Helper()
	eventually(s.t, "the broker takes the records", func() bool {
		var again []*kgo.Record
		for _, r := range s.prod.ProduceSync(s.t.Context(), records...) {
			switch {
			case errors.Is(r.Err, kerr.UnknownTopicID): // just created anew: the metadata still had the old id
				again = append(again, r.Record)
			case r.Err != nil:
				s.t.Fatalf("produce: %v", r.Err)
			}
		}
		if records = again; len(records) > 0 {
			s.prod.PurgeTopicsFromClient(s.topic)
		}
		return len(records) == 0
	})
}

// numbers are n values with a prefix.
func numbers(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}

// running is a worker that runs.
type running struct {
	*Worker
	t    *testing.T
	done chan struct{}
	err  error
	stop context.CancelFunc
}

// quick are settings for tests that do not wait long.
func quick() *Config {
	return &Config{
		Options: consumer.Options{
			Lease: 5 * time.Second, Drain: time.Second, BackoffBase: time.Millisecond, BackoffMax: 20 * time.Millisecond,
		},
		CommitInterval: 20 * time.Millisecond, RevokeDrain: 2 * time.Second,
	}
}

func (s *site) worker(h consumer.HandlerFunc, c *Config, opts ...kgo.Opt) *Worker {
	s.t.Helper()
	return s.workerOf(s.ledger, h, c, opts...)
}

// workerOf is a worker with a ledger of its own.
func (s *site) workerOf(l ledger.Ledger, h consumer.HandlerFunc, c *Config, opts ...kgo.Opt) *Worker {
	s.t.Helper()
	if c == nil {
		c = quick()
	}
	if c.Logger == nil {
		c.Logger = zaptest.NewLogger(s.t)
	}
	c.Audit = s.audit
	all := slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(s.brokers...), kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.HeartbeatInterval(200 * time.Millisecond),
	}, s.opts, opts)
	w, err := NewWorker(all, l, h, c)
	if err != nil {
		s.t.Fatal(err)
	}
	w.watch = 200 * time.Millisecond
	return w
}

func (s *site) start(h consumer.HandlerFunc, c *Config, opts ...kgo.Opt) *running {
	s.t.Helper()
	return runWorker(s.t, s.worker(h, c, opts...))
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

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // the poll interval of a condition with a deadline
	}
}

// book counts what handlers did.
type book struct {
	mu   sync.Mutex
	runs map[string]int
	list []string
	keys map[string]string // child key: the value that it was made for
	met  []string          // values that share a child key with another one
}

func newBook() *book { return &book{runs: map[string]int{}, keys: map[string]string{}} }

func (b *book) add(m *consumer.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs[string(m.Body)]++
	b.list = append(b.list, string(m.Body))
}

func (b *book) handle(ctx context.Context, m *consumer.Message) error {
	b.add(m)
	b.mu.Lock()
	defer b.mu.Unlock()
	key, value := consumer.ChildKey(ctx, "effect"), string(m.Body)
	if other, ok := b.keys[key]; ok && other != value && key != "" {
		b.met = append(b.met, other+" and "+value)
	}
	b.keys[key] = value
	return nil
}

func (b *book) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs)
}

// once says that each value was handled exactly once, under child keys of its own, and nothing else.
func (b *book) once(t *testing.T, values []string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range values {
		if b.runs[v] != 1 {
			t.Errorf("%q was handled %d times", v, b.runs[v])
		}
	}
	if len(b.runs) != len(values) {
		t.Errorf("%d messages were handled, want %d", len(b.runs), len(values))
	}
	if len(b.met) > 0 {
		t.Errorf("one child key for %d pairs of messages, such as %s", len(b.met), b.met[0])
	}
}

// committed is the group's offset of a partition; -1: none.
func (s *site) committed(partition int32) int64 {
	s.t.Helper()
	all, err := s.adm.FetchOffsets(s.t.Context(), s.group)
	if errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.CoordinatorNotAvailable) { // not yet
		return -1
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if o, ok := all.Lookup(s.topic, partition); ok {
		return o.At
	}
	return -1
}

// caughtUp waits until the group has committed the end of all partitions.
func (s *site) caughtUp() {
	s.t.Helper()
	for partition := range s.ends() {
		var end, at int64
		defer func() {
			if end != at {
				s.t.Logf("partition %d is committed to %d of %d", partition, at, end)
			}
		}()
		eventually(s.t, fmt.Sprintf("partition %d is committed to its end", partition), func() bool {
			end = s.ends()[partition].Offset
			at = s.committed(partition)
			return at == end
		})
	}
}

// ends are the ends of the topic's partitions now.
func (s *site) ends() map[int32]kadm.ListedOffset {
	s.t.Helper()
	ends, err := s.adm.ListEndOffsets(s.t.Context(), s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	return ends[s.topic]
}

// ended waits until the only partition ends there: a transaction's end returns before its control record is written.
func (s *site) ended(at int64) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("the log ends at %d", at), func() bool { return s.ends()[0].Offset == at })
}

func (r *running) ready() {
	r.t.Helper()
	eventually(r.t, "the worker is ready", func() bool { return r.Health().Ready })
}

// owns waits until the worker owns that many partitions.
func (r *running) owns(n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("the worker owns %d partitions, now %d", n, r.owned()), func() bool { return r.owned() == n })
}

func (r *running) owned() int {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	n := 0
	for _, a := range r.table.core.All() {
		if !a.Closed() {
			n++
		}
	}
	return n
}
