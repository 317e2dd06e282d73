package dashboard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	promclient "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// patience bounds every wait. It is long: what takes longer hangs.
const patience = 90 * time.Second

// store is what a site asks of a ledger.
type store interface {
	ledger.Ledger
	ledger.Inspector
	ledger.Maintainer
}

// site is an SQS and a Kafka worker and a runner on one ledger, with their exporter: one target of Prometheus.
type site struct {
	*testing.T
	name     string
	store    store
	meters   *sdkmetric.MeterProvider
	registry *promclient.Registry
	queues   *sqstest.Server
	queue    string
	cluster  *kfake.Cluster
	handled  chan string   // bodies, when their handler ends well
	holding  chan struct{} // a handler is in its first attempt at a message "held"
	held     sync.Map      // bodies whose first attempt was
	extended atomic.Int64  // how often visibilities had been changed when the round began
	cipher   lock
	runner   *idempotency.Runner
}

// lock is a cipher that changes nothing, and fails once when it is told to.
type lock struct{ broken atomic.Bool }

func (l *lock) Seal(_ context.Context, plain []byte) ([]byte, error) {
	if l.broken.CompareAndSwap(true, false) {
		return nil, errors.New("there is no key")
	}
	return plain, nil
}

func (*lock) Open(_ context.Context, sealed []byte) ([]byte, error) { return sealed, nil }

func newSite(t *testing.T, name string, s store) *site {
	t.Helper()
	site := &site{T: t, name: name, store: s, registry: promclient.NewRegistry(), queues: sqstest.Start(t, nil),
		handled: make(chan string, 100), holding: make(chan struct{}, 1)}
	site.queue = site.createQueue("orders")
	var err error
	if site.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(site.cluster.Close)
	exporter, err := prometheus.New(prometheus.WithRegisterer(site.registry))
	if err != nil {
		t.Fatal(err)
	}
	site.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	if _, err := consumer.ObserveLedger(s, site.meters); err != nil {
		t.Fatal(err)
	}
	site.run()
	return site
}

// run starts the workers.
func (s *site) run() {
	s.Helper()
	dead, err := sqs.NewDeadLetterQueue(s.queues.Client(), s.createQueue("dead"))
	if err != nil {
		s.Fatal(err)
	}
	options := consumer.Options{Name: s.name, MeterProvider: s.meters, DeadLetter: dead, Cipher: &s.cipher,
		BackoffBase: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond, Lease: 3 * time.Second, ArchiveBudget: 1 << 30}
	limited := options
	limited.Limit = func(*consumer.Message) (string, int) { return s.name, 100 }
	first, err := sqs.NewWorker(s.queues.Client(), s.queue, s.store, consumer.HandlerFunc(s.handle),
		&sqs.Config{Options: limited, WaitTime: time.Second, VisibilityTimeout: 4 * time.Second})
	if err != nil {
		s.Fatal(err)
	}
	second, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.ConsumerGroup(s.name), kgo.ConsumeTopics("orders"),
	}, s.store, consumer.HandlerFunc(s.handle), &kafka.Config{Options: options})
	if err != nil {
		s.Fatal(err)
	}
	if s.runner, err = idempotency.New(s.store, idempotency.Options{MeterProvider: s.meters}); err != nil {
		s.Fatal(err)
	}
	s.start(first, second, s.runner)
}

// start runs workers until the test ends.
func (s *site) start(workers ...consumer.Worker) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx, workers...) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

// handle does what the body says: a word, and the round.
func (s *site) handle(ctx context.Context, m *consumer.Message) error {
	body := string(m.Body)
	word, _, _ := strings.Cut(body, " ")
	switch word {
	case "late":
		if m.Attempt == 1 {
			return errors.New("not yet")
		}
	case "bad":
		return consumer.Terminal(errors.New("never"))
	case "long": // until a visibility was extended
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for int64(s.queues.Calls("ChangeMessageVisibilityBatch")) == s.extended.Load() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	case "held": // the first attempt lasts until its lease is lost
		if _, again := s.held.LoadOrStore(body, true); !again {
			s.holding <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
	}
	s.handled <- body
	return nil
}

// work sends a few messages, and waits until they were handled.
func (s *site) work(round string) {
	s.Helper()
	s.send("late "+round, 0)
	s.send("bad "+round, 0)
	s.produce(&kgo.Record{Topic: "orders", Value: []byte("record " + round)})
	s.wait("late "+round, "record "+round)
	s.ask("own " + round)
	s.request(round)
}

// request has the runner do something, and answer it again.
func (s *site) request(key string) {
	s.Helper()
	for _, replayed := range []bool{false, true} {
		out, err := s.runner.Do(s.Context(), idempotency.Request{Scope: "site", Key: key}, func(context.Context) (idempotency.Result, error) {
			return idempotency.Result{Status: http.StatusOK}, nil
		})
		if err != nil || out.Replayed != replayed {
			s.Fatalf("%+v, %v", out, err)
		}
	}
}

// ask claims a message without a worker, until it is a duplicate.
func (s *site) ask(id string) {
	s.Helper()
	o, c := s.claim(id, id)
	if errs, err := o.Settle(s.Context(), []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Succeed}}); err != nil || errs[0] != nil {
		s.Fatal(err, errs)
	}
	claims, err := o.Claim(s.Context(), []ledger.Entry{{Key: ledger.Key{Scope: s.scope(), ID: []byte(id)}, Delivery: []byte(id),
		Fingerprint: ledger.BodyFingerprint([]byte(id)), Window: time.Hour}})
	if err != nil || claims[0].Answer != ledger.Done {
		s.Fatalf("claim: %+v, %v", claims, err)
	}
}

// trouble makes each of the metrics of workers grow. The ledger is m.
func (s *site) trouble(m *memory.Ledger, round string) {
	s.Helper()
	s.request(round)
	s.extended.Store(int64(s.queues.Calls("ChangeMessageVisibilityBatch")))
	s.cipher.broken.Store(true)
	s.queues.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Code: sqstest.CodeInternal, Entries: func(int, string) bool { return true }})
	for _, word := range []string{"plain ", "late ", "bad ", "long "} {
		s.send(word+round, 0)
	}
	// Two are claimed by others before they come to a worker.
	dead, _ := s.claim(s.send("crashed "+round, 1), "crashed "+round)
	if !m.Declare(dead.ID()) {
		s.Fatal("the owner was not declared dead")
	}
	o, c := s.claim(s.send("done "+round, 1), "done "+round)
	if errs, err := o.Settle(s.Context(), []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Succeed}}); err != nil || errs[0] != nil {
		s.Fatal(err, errs)
	}
	foreign := consumer.NewStamp(s.topic(), "orders-0-0", []byte("foreign "+round))
	foreign.Group = "others"
	forged := consumer.NewStamp(s.topic(), "orders-0-1000000", []byte("forged "+round))
	forged.Pos = &ledger.Position{Log: "log/0", Offset: 1_000_000} // there is no such record
	stamped := func(body string, stamp consumer.Stamp) *kgo.Record {
		return &kgo.Record{Topic: "orders", Value: []byte(body),
			Headers: []kgo.RecordHeader{{Key: consumer.StampName, Value: []byte(stamp.String())}}}
	}
	s.produce(&kgo.Record{Topic: "orders", Value: []byte("record " + round)}, stamped("foreign "+round, foreign), stamped("forged "+round, forged))
	held := s.send("held "+round, 0)
	select {
	case <-s.holding:
	case <-time.After(patience):
		s.Fatal("the message is not held")
	}
	r, err := m.Get(s.Context(), ledger.Key{Scope: s.scope(), ID: []byte(held)})
	if err != nil || !m.Declare(r.Owner) {
		s.Fatalf("the worker was not declared dead: %+v, %v", r, err)
	}
	s.wait("plain "+round, "late "+round, "crashed "+round, "record "+round, "held "+round, "long "+round)
	s.unsure(m, round)
}

// unsure loses the answer of a settlement: always of the Kafka worker's, since the other one has nothing left to settle.
func (s *site) unsure(m *memory.Ledger, round string) {
	s.Helper()
	for deadline := time.Now().Add(patience); s.queues.Counts("orders").Depth() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("messages stay in the queue")
		}
	}
	var once sync.Once
	m.FailAfter(func(_ context.Context, op memory.Op) (err error) {
		if op == memory.Settle {
			once.Do(func() { err = ledger.MarkUnknown(errors.New("the answer was lost")) })
		}
		return err
	})
	s.produce(&kgo.Record{Topic: "orders", Value: []byte("unsure " + round)})
	s.wait("unsure " + round)
}

// wait waits until each of the bodies was handled.
func (s *site) wait(bodies ...string) {
	s.Helper()
	missing := make(map[string]bool, len(bodies))
	for _, body := range bodies {
		missing[body] = true
	}
	for deadline := time.After(patience); len(missing) > 0; {
		select {
		case body := <-s.handled:
			delete(missing, body)
		case <-deadline:
			s.Fatalf("not handled: %v", missing)
		}
	}
}

func (s *site) createQueue(name string) (url string) {
	s.Helper()
	url, err := s.queues.CreateQueue(name, nil)
	if err != nil {
		s.Fatal(err)
	}
	return url
}

// scope is that of the messages of the queue.
func (s *site) scope() string { return "sqs:arn:aws:sqs:us-east-1:000000000000:orders/" + s.name }

// send sends a message that comes after some seconds.
func (s *site) send(body string, delay int32) (id string) {
	s.Helper()
	out, err := s.queues.Client().SendMessage(s.Context(), &awssqs.SendMessageInput{QueueUrl: &s.queue, MessageBody: aws.String(body), DelaySeconds: delay})
	if err != nil {
		s.Fatal(err)
	}
	return *out.MessageId
}

// claim makes an owner that claims the message before a worker sees it.
func (s *site) claim(id, body string) (ledger.Owner, ledger.Claim) {
	s.Helper()
	o, err := s.store.Join(s.Context(), time.Minute)
	if err != nil {
		s.Fatal(err)
	}
	claims, err := o.Claim(s.Context(), []ledger.Entry{{Key: ledger.Key{Scope: s.scope(), ID: []byte(id)}, Delivery: []byte(id),
		Fingerprint: ledger.BodyFingerprint([]byte(body)), Window: time.Hour}})
	if err != nil || claims[0].Answer != ledger.Run {
		s.Fatalf("claim: %+v, %v", claims, err)
	}
	return o, claims[0]
}

func (s *site) kafkaClient() *kgo.Client {
	s.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...))
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func (s *site) produce(records ...*kgo.Record) {
	s.Helper()
	c := s.kafkaClient()
	defer c.Close()
	if err := c.ProduceSync(s.Context(), records...).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// topic is the name of the Kafka source, which stamps carry.
func (s *site) topic() string {
	s.Helper()
	c := s.kafkaClient()
	defer c.Close()
	meta, err := kadm.NewClient(c).BrokerMetadata(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return meta.Cluster + "/orders"
}

// sweep makes a pass over the ledger, from which its counts come.
func (s *site) sweep() {
	s.Helper()
	if _, err := s.store.Sweep(s.Context(), ledger.MaintainConfig{}); err != nil {
		s.Fatal(err)
	}
}

// scrape asks the exporter over HTTP, as Prometheus does.
func (s *site) scrape() string {
	s.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.Fatalf("scrape: %s, %v", answer.Status, err)
	}
	return string(text)
}
