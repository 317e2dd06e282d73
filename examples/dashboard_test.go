package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// site is an SQS and a Kafka worker on one ledger, to which everything happens that has a metric.
type site struct {
	*testing.T
	store    *memory.Ledger
	registry *promclient.Registry
	queues   *sqstest.Server
	queue    string
	cluster  *kfake.Cluster
	handled  chan string // bodies, when their handler ends well
	holding  chan struct{}
	hold     sync.Once
	stop     func() error
}

const (
	siteName  = "payments"
	siteScope = "sqs:arn:aws:sqs:us-east-1:000000000000:orders/" + siteName
)

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, store: memory.New(), registry: promclient.NewRegistry(), queues: sqstest.Start(t, nil),
		handled: make(chan string, 100), holding: make(chan struct{})}
	s.queue = createQueue(t, s.queues, "orders")
	var err error
	if s.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cluster.Close)
	exporter, err := prometheus.New(prometheus.WithRegisterer(s.registry))
	if err != nil {
		t.Fatal(err)
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	if _, err := consumer.ObserveLedger(s.store, meters); err != nil {
		t.Fatal(err)
	}
	dead, err := sqs.NewDeadLetterQueue(s.queues.Client(), createQueue(t, s.queues, "dead"))
	if err != nil {
		t.Fatal(err)
	}
	options := consumer.Options{Name: siteName, MeterProvider: meters, DeadLetter: dead, BackoffBase: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond,
		Lease: 3 * time.Second}
	first, err := sqs.NewWorker(s.queues.Client(), s.queue, s.store, consumer.HandlerFunc(s.handle),
		&sqs.Config{Options: options, WaitTime: time.Second, VisibilityTimeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	second, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.ConsumerGroup(siteName), kgo.ConsumeTopics("orders"),
	}, s.store, consumer.HandlerFunc(s.handle), &kafka.Config{Options: options})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	go func() { ended <- consumer.Run(ctx, first, second) }()
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// handle does what the body says.
func (s *site) handle(ctx context.Context, m *consumer.Message) error {
	body := string(m.Body)
	switch {
	case body == "late" && m.Attempt == 1:
		return errors.New("not yet")
	case body == "bad":
		return consumer.Terminal(errors.New("never"))
	case body == "long": // until its visibility was extended
		for tick := time.NewTicker(10 * time.Millisecond); s.queues.Calls("ChangeMessageVisibilityBatch") == 0; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	case body == "held": // the first attempt lasts until its lease is lost
		first := false
		s.hold.Do(func() { first = true })
		if first {
			close(s.holding)
			<-ctx.Done()
			return ctx.Err()
		}
	}
	s.handled <- body
	return nil
}

func (s *site) send(body string) (id string) {
	s.Helper()
	out, err := s.queues.Client().SendMessage(s.Context(), &awssqs.SendMessageInput{QueueUrl: &s.queue, MessageBody: aws.String(body)})
	if err != nil {
		s.Fatal(err)
	}
	return *out.MessageId
}

// known makes an owner that claims the message before a worker sees it.
func (s *site) known(id, body string) (ledger.Owner, ledger.Claim) {
	s.Helper()
	o, err := s.store.Join(s.Context(), time.Minute)
	if err != nil {
		s.Fatal(err)
	}
	claims, err := o.Claim(s.Context(), []ledger.Entry{{Key: ledger.Key{Scope: siteScope, ID: []byte(id)}, Delivery: []byte(id),
		Fingerprint: ledger.BodyFingerprint([]byte(body)), Window: time.Hour}})
	if err != nil || claims[0].Answer != ledger.Run {
		s.Fatalf("claim: %+v, %v", claims, err)
	}
	return o, claims[0]
}

// everythingHappens makes each of the metrics grow.
func (s *site) everythingHappens() {
	s.Helper()
	s.queues.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Code: sqstest.CodeInternal, Entries: func(int, string) bool { return true }})
	for _, body := range []string{"plain", "late", "bad", "long"} {
		s.send(body)
	}
	// Two are claimed by others before they come to a worker.
	dead, _ := s.known(s.delayed("crashed"), "crashed")
	if !s.store.Declare(dead.ID()) {
		s.Fatal("the owner was not declared dead")
	}
	o, c := s.known(s.delayed("done before"), "done before")
	if errs, err := o.Settle(s.Context(), []ledger.Settlement{{Ticket: c.Ticket, Kind: ledger.Succeed}}); err != nil || errs[0] != nil {
		s.Fatal(err, errs)
	}
	var once sync.Once
	s.store.FailAfter(func(_ context.Context, op memory.Op) (err error) {
		if op == memory.Settle {
			once.Do(func() { err = ledger.MarkUnknown(errors.New("the answer was lost")) })
		}
		return err
	})
	foreign := consumer.NewStamp(s.topic(), "orders-0-0", []byte("foreign"))
	foreign.Group = "others"
	s.produce(&kgo.Record{Topic: "orders", Value: []byte("record")},
		&kgo.Record{Topic: "orders", Value: []byte("foreign"), Headers: []kgo.RecordHeader{{Key: consumer.StampName, Value: []byte(foreign.String())}}})
	held := s.send("held")
	<-s.holding
	r, err := s.store.Get(s.Context(), ledger.Key{Scope: siteScope, ID: []byte(held)})
	if err != nil || !s.store.Declare(r.Owner) {
		s.Fatalf("the worker was not declared dead: %+v, %v", r, err)
	}
	want := map[string]bool{"plain": true, "late": true, "crashed": true, "record": true, "held": true, "long": true}
	for deadline := time.After(patience); len(want) > 0; {
		select {
		case body := <-s.handled:
			delete(want, body)
		case <-deadline:
			s.Fatalf("not handled: %v", want)
		}
	}
}

// delayed sends a message that comes after a second.
func (s *site) delayed(body string) (id string) {
	s.Helper()
	out, err := s.queues.Client().SendMessage(s.Context(), &awssqs.SendMessageInput{QueueUrl: &s.queue, MessageBody: aws.String(body), DelaySeconds: 1})
	if err != nil {
		s.Fatal(err)
	}
	return *out.MessageId
}

func (s *site) produce(records ...*kgo.Record) {
	s.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...))
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(s.Context(), records...).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// topic is the name of the Kafka source, which stamps carry.
func (s *site) topic() string {
	s.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...))
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	meta, err := kadm.NewClient(c).BrokerMetadata(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return meta.Cluster + "/orders"
}

// scrape asks the exporter over HTTP, as Prometheus does.
func (s *site) scrape() *scrape {
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
	return parseScrape(s.T, string(text))
}

// dashboard is what is read of the dashboard's JSON.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []struct {
		ID      int
		Title   string
		Type    string
		Targets []struct{ Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("metrics/dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheDashboardShowsWhatIsScraped: each query of the dashboard finds series with the labels that it names, in a scrape
// of workers to which everything happened; and each metric of ackledger is in a query.
func TestTheDashboardShowsWhatIsScraped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.everythingHappens()
	if _, err := s.store.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	d := readDashboard(t)
	problems := d.problems(s.scrape())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); len(problems) > 0 && time.Now().Before(deadline); <-tick.C {
		problems = d.problems(s.scrape()) // what is counted behind a handler comes a moment later
	}
	for _, p := range problems {
		t.Error(p)
	}
}

var (
	legendLabel = regexp.MustCompile(`{{([a-z_]+)}}`)
	labelValues = regexp.MustCompile(`^label_values\(([a-z_]+), ([a-z_]+)\)$`)
)

// problems says what the dashboard asks that a scrape does not answer, and what of the scrape it does not show.
func (d *dashboard) problems(s *scrape) (problems []string) {
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, what+": "+err.Error())
		}
	}
	used := map[string]bool{}
	variables := map[string]bool{}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		var q struct{ Query string }
		if v.Type != "query" {
			continue
		}
		m := []string{}
		if err := json.Unmarshal(v.Query, &q); err == nil {
			m = labelValues.FindStringSubmatch(q.Query)
		}
		if len(m) != 3 {
			problems = append(problems, "variable "+v.Name+": no label_values")
			continue
		}
		_, err := s.check("max by ("+m[2]+") ("+m[1]+")", used)
		note("variable "+v.Name, err)
	}
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			labels, err := s.check(target.Expr, used)
			note("panel "+p.Title, err)
			for _, m := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
				if err == nil && !labels[m[1]] {
					problems = append(problems, "panel "+p.Title+": the legend names "+m[1]+", which the result does not have")
				}
			}
			for _, m := range regexp.MustCompile(`\$([a-z]+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !variables[m[1]] {
					problems = append(problems, "panel "+p.Title+": there is no variable "+m[1])
				}
			}
		}
	}
	if queries < 20 {
		problems = append(problems, "the dashboard was not read")
	}
	for name := range s.types {
		shown := slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(u string) bool { return u == name || strings.HasPrefix(u, name+"_") })
		if strings.HasPrefix(name, "ackledger_") && !shown {
			problems = append(problems, name+" is on no panel")
		}
	}
	return problems
}
