package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/zap/zaptest"
)

// shareTerms are a group's settings that a worker with the default options takes.
var shareTerms = map[string]string{
	termReset: "earliest", termLimit: "20", termLock: "5000", termIsolation: "read_committed",
}

// alterGroup sets a group's settings.
func (s *site) alterGroup(terms map[string]string) {
	s.t.Helper()
	if err := services.SetShareGroup(s.t.Context(), s.prod, s.group, terms); err != nil {
		s.t.Fatal(err)
	}
}

// shareProperties let a group have locks that are short enough for tests.
var shareProperties = map[string]string{
	"group.share.min.record.lock.duration.ms": "1000", "group.share.max.delivery.count.limit": "25",
	"group.share.min.heartbeat.interval.ms": "200", "group.share.heartbeat.interval.ms": "500",
	"group.share.min.session.timeout.ms": "2000", "group.share.session.timeout.ms": "5000",
}

// shareCluster is shared by the tests that do not stop it.
var shareCluster = sync.OnceValues(func() ([]string, error) {
	k, err := services.StartKafka(context.Background(), services.KafkaOptions{Properties: shareProperties})
	if err != nil {
		return nil, err
	}
	return k.Brokers(), nil
})

func sharedSite(t *testing.T, partitions int32) *site {
	t.Helper()
	services.NeedServers(t)
	brokers, err := shareCluster()
	if err != nil {
		t.Fatal(err)
	}
	return shareSite(t, brokers, partitions)
}

func shareSite(t *testing.T, brokers []string, partitions int32) *site {
	t.Helper()
	s := realSite(t, brokers, partitions)
	s.alterGroup(shareTerms)
	return s
}

// sharing is a share group's worker that runs.
type sharing struct {
	*ShareWorker
	t    *testing.T
	done chan error
	stop context.CancelFunc
}

func quickShare() *ShareConfig { return &ShareConfig{Options: quick().Options} }

func (s *site) shareWorker(h consumer.HandlerFunc, c *ShareConfig) *ShareWorker {
	s.t.Helper()
	if c == nil {
		c = quickShare()
	}
	if c.Logger == nil {
		c.Logger = zaptest.NewLogger(s.t)
	}
	all := slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(s.brokers...), kgo.ShareGroup(s.group), kgo.ConsumeTopics(s.topic), kgo.MetadataMinAge(50 * time.Millisecond),
	}, s.opts)
	w, err := NewShareWorker(all, s.ledger, h, c)
	if err != nil {
		s.t.Fatal(err)
	}
	w.watch = 200 * time.Millisecond
	return w
}

func (s *site) share(h consumer.HandlerFunc, c *ShareConfig) *sharing {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &sharing{ShareWorker: s.shareWorker(h, c), t: s.t, done: make(chan error, 1), stop: cancel}
	go func() { r.done <- r.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); _ = r.wait() })
	return r
}

func (r *sharing) wait() error {
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(60 * time.Second):
		return errors.New("Run does not end")
	}
}

func (r *sharing) end() {
	r.t.Helper()
	r.stop()
	if err := r.wait(); err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

// shareLag is how many records of a partition the group has not decided; -1: not known.
func (s *site) shareLag(partition int32) int64 {
	s.t.Helper()
	all, err := s.adm.DescribeShareGroupOffsets(s.t.Context(), s.group)
	if o, ok := all[s.group].Offsets[s.topic][partition]; err == nil && ok {
		return o.Lag
	}
	return -1
}

// accepted waits until the group has decided all of a partition.
func (s *site) accepted(partition int32) {
	s.t.Helper()
	eventually(s.t, "all of the partition is accepted", func() bool { return s.shareLag(partition) == 0 })
}

// A member says how many records the group has not decided.
func TestShareLag(t *testing.T) {
	t.Parallel()
	s := sharedSite(t, 1)
	s.send(0, numbers("v", 7)...)
	reader, free := metric.NewManualReader(), make(chan struct{})
	c := quickShare()
	c.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	r := s.share(func(_ context.Context, m *consumer.Message) error {
		if string(m.Body) == "v3" {
			<-free
		}
		return nil
	}, c)
	is := func(want int64) func() bool {
		return func() bool {
			lag, ok := gaugeOf(t, reader, "ackledger.kafka.share.lag")
			return ok && lag == want
		}
	}
	eventually(t, "one is not decided", is(1))
	close(free)
	eventually(t, "all are decided", is(0))
	r.end()
}

func TestShareGroupHandlesEachRecordOnce(t *testing.T) {
	t.Parallel()
	s := sharedSite(t, 2)
	values := numbers("v", 3000)
	s.send(0, values[:1500]...)
	s.send(1, values[1500:]...)
	b := newBook()
	one, two := s.share(b.handle, nil), s.share(b.handle, nil)
	eventually(t, "all are handled", func() bool { return b.len() == len(values) })
	s.accepted(0)
	s.accepted(1)
	one.end()
	two.end()
	b.once(t, values)
}

// A record is held over many polls, and many times as long as its lock, while others pass it. The client would accept it at
// the next poll.
func TestPitfall235_UndecidedOverPolls(t *testing.T) {
	t.Parallel()
	s := sharedSite(t, 1)
	s.send(0, "slow")
	b, free := newBook(), make(chan struct{})
	r := s.share(func(ctx context.Context, m *consumer.Message) error {
		b.add(m)
		if string(m.Body) == "slow" {
			<-free
		}
		return nil
	}, nil)
	for i := range 30 { // 15 s: three times the lock
		s.send(0, fmt.Sprint(i))
		eventually(t, "it is handled", func() bool { return b.len() == i+2 })
		time.Sleep(500 * time.Millisecond) // the lock's time passes on the broker, which has no clock to be driven
	}
	if s.shareLag(0) == 0 {
		t.Error("a record was accepted that is not decided")
	}
	close(free)
	s.accepted(0)
	r.end()
	if b.runs["slow"] != 1 {
		t.Errorf("handled %d times", b.runs["slow"])
	}
}

// What a handler fails is retried in place: no delivery is spent on it.
func TestShareRetriesCostNoDelivery(t *testing.T) {
	t.Parallel()
	s := sharedSite(t, 1)
	s.send(0, "a", "b")
	c := quickShare()
	c.Attempts, c.BackoffBase, c.BackoffMax = 4, time.Second, 2*time.Second
	var seen []int
	b := newBook()
	r := s.share(func(_ context.Context, m *consumer.Message) error {
		b.mu.Lock()
		seen = append(seen, m.Received)
		b.mu.Unlock()
		b.add(m)
		if string(m.Body) == "a" {
			return errors.New("not yet")
		}
		return nil
	}, c)
	s.accepted(0)
	r.end()
	if b.runs["a"] != 4 || b.runs["b"] != 1 || slices.Max(seen) != 1 {
		t.Errorf("%v, deliveries %v", b.runs, seen)
	}
}

// What is put off for long is parked: the group has accepted it meanwhile, and it comes again from the ledger, whole.
func TestShareRetryIsParked(t *testing.T) {
	t.Parallel()
	s := sharedSite(t, 1)
	s.send(0, "a", "b")
	c := quickShare()
	c.ParkAfter = time.Second
	b, again := newBook(), make(chan consumer.Message, 1)
	r := s.share(func(_ context.Context, m *consumer.Message) error {
		b.add(m)
		switch {
		case string(m.Body) == "b":
			return nil
		case m.Attempt == 1:
			return consumer.RetryAfter(errors.New("not yet"), 10*time.Second)
		}
		again <- m.Clone()
		return nil
	}, c)
	s.accepted(0)
	if len(again) > 0 {
		t.Error("it has run again before it was accepted")
	}
	select {
	case m := <-again:
		if m.Attempt != 2 || m.Topic != s.topic || m.Partition != 0 || m.Offset != 0 || string(m.Body) != "a" {
			t.Errorf("it comes as %+v", m)
		}
	case <-time.After(60 * time.Second):
		t.Error("it does not run again")
	}
	r.end()
	if b.runs["a"] != 2 || b.runs["b"] != 1 {
		t.Errorf("handled: %v", b.runs)
	}
}

// A stamp that nobody has signed names a record that is still to come: it counts for nothing, and both are handled.
func TestShareStampOfWhatIsToCome(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.alterGroup(map[string]string{termReset: "earliest", termLimit: "20", termLock: "30000", termIsolation: "read_committed"})
	b := newBook()
	r := s.share(b.handle, nil)
	s.send(0, "first")
	eventually(t, "the worker has met the partition", func() bool { return b.len() == 1 })
	key := ledger.Key{Scope: r.sources[s.topic].scope, ID: []byte(recordID(s.topic, 0, 2)),
		Pos: &ledger.Position{Log: LogName(r.cluster, s.topic, r.ids[s.topic], 0), Offset: 2}}
	stamp := consumer.NewStamp(r.sources[s.topic].name, string(key.ID), []byte("same"))
	stamp.Pos = key.Pos
	s.sendRecords(&kgo.Record{Topic: s.topic, Value: []byte("same"), Headers: []kgo.RecordHeader{{Key: consumer.StampName, Value: []byte(stamp.String())}}},
		&kgo.Record{Topic: s.topic, Value: []byte("same")})
	s.accepted(0)
	r.end()
	if rec, err := s.ledger.Get(t.Context(), key); err != nil || rec.State != ledger.Succeeded {
		t.Errorf("what the stamp names: %+v, %v", rec, err)
	}
	if b.runs["same"] != 2 {
		t.Errorf("handled: %v", b.runs)
	}
}

// A record that has come almost as often as the broker delivers it is not handled any more: the ledger has it, with its body.
func TestPitfall236_LastDeliveries(t *testing.T) {
	t.Parallel()
	s := sharedSite(t, 1)
	s.alterGroup(map[string]string{termLimit: "6"})
	s.send(0, "worn")
	waste, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ShareGroup(s.group), kgo.ConsumeTopics(s.topic))
	if err != nil {
		t.Fatal(err)
	}
	for n := int32(0); n < 4; { // by a member that crashes, as it were
		for _, r := range waste.PollFetches(t.Context()).Records() {
			n = r.DeliveryCount()
		}
		waste.MarkAcks(kgo.AckRelease)
	}
	if err := waste.FlushAcks(t.Context()); err != nil {
		t.Fatal(err)
	}
	waste.Close()
	c := quickShare()
	c.Attempts = 1
	r := s.share(func(context.Context, *consumer.Message) error { t.Error("it is handled"); return nil }, c)
	s.accepted(0)
	r.end()
	n := 0
	for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{}) {
		if n++; err != nil || len(d.Errors) == 0 || !strings.Contains(d.Errors[0].Error, "of at most 6") {
			t.Errorf("archived: %+v, %v", d, err)
			continue
		}
		if rec, err := s.ledger.Get(t.Context(), d.Key); err != nil || len(rec.Archived) != 1 || string(rec.Archived[0].Body) != "worn" {
			t.Errorf("its body: %+v, %v", rec, err)
		}
	}
	if n != 1 {
		t.Errorf("%d are archived", n)
	}
}
