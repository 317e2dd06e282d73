package examples_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// named returns what the first column of docs/telemetry.md names, as far as it matches.
func named(t *testing.T, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	name := regexp.MustCompile("`(" + pattern + ")`")
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]+\|`).FindAllString(string(text), -1) {
		for _, m := range name.FindAllStringSubmatch(row, -1) {
			found[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// instruments is a MeterProvider that notes which instruments are made.
type instruments struct {
	noop.MeterProvider
	mu   sync.Mutex
	made map[string]bool
}

func (p *instruments) Meter(string, ...metric.MeterOption) metric.Meter { return meter{of: p} }

func (p *instruments) note(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[name] = true
}

type meter struct {
	noop.Meter
	of *instruments
}

func (m meter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.of.note(name)
	return m.Meter.Int64Counter(name, o...)
}

func (m meter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.of.note(name)
	return m.Meter.Float64Histogram(name, o...)
}

func (m meter) Int64ObservableGauge(name string, o ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	m.of.note(name)
	return m.Meter.Int64ObservableGauge(name, o...)
}

func (m meter) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	m.of.note(name)
	return m.Meter.Int64ObservableCounter(name, o...)
}

func (m meter) Float64ObservableCounter(name string, o ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	m.of.note(name)
	return m.Meter.Float64ObservableCounter(name, o...)
}

func (m meter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	m.of.note(name)
	return m.Meter.Float64ObservableGauge(name, o...)
}

// nowhere is a target that nothing is published for.
type nowhere struct{}

func (nowhere) Publish(context.Context, []consumer.Publication) []error { return nil }
func (nowhere) Source(context.Context) (string, error)                  { return "", nil }

func TestTheMetricsOfTheTableAreThoseOfTheWorkers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handled := make(chan struct{}, 3)
	handler := consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
		handled <- struct{}{}
		return nil
	})
	made := &instruments{made: map[string]bool{}}
	options := consumer.Options{Name: "payments", MeterProvider: made}
	relaying := options
	relaying.Relay = &consumer.Relay{Targets: map[string]consumer.Publisher{"nowhere": nowhere{}}}
	queues := sqstest.Start(t, nil)
	url, err := queues.CreateQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := sqs.NewWorker(queues.Client(), url, memory.New(), handler, &sqs.Config{Options: relaying, WaitTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "refunds"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	second, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumerGroup("payments"), kgo.ConsumeTopics("orders"),
	}, memory.New(), handler, &kafka.Config{Options: options})
	if err != nil {
		t.Fatal(err)
	}
	setShareGroup(t, cluster.ListenAddrs(), "shares")
	sharing := options
	sharing.Name, sharing.Attempts = "shares", 5
	shared, err := kafka.NewShareWorker([]kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ShareGroup("shares"), kgo.ConsumeTopics("refunds"),
	}, memory.New(), handler, &kafka.ShareConfig{Options: sharing})
	if err != nil {
		t.Fatal(err)
	}
	third, err := idempotency.New(memory.New(), idempotency.Options{MeterProvider: made})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.ObserveLedger(memory.New(), made); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx, first, second, shared, third) }()
	sendOrder(t, queues.Client(), url, "1")
	produceOrder(t, cluster.ListenAddrs(), "orders", "1")
	produceOrder(t, cluster.ListenAddrs(), "refunds", "1")
	<-handled
	<-handled
	<-handled
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(made.made)), named(t, `ackledger\.[a-z_.]+`); !slices.Equal(got, want) {
		t.Errorf("the workers make %q\ndocs/telemetry.md names %q", got, want)
	}
}

// One vocabulary: whatever field the sources log is in the table, and nothing else is.
func TestTheLogFieldsOfTheTableAreThoseOfTheSources(t *testing.T) {
	field := regexp.MustCompile(`zap\.[A-Z][A-Za-z0-9]*\("([a-z_]+)"`)
	logged := map[string]bool{"error": true} // zap.Error
	for _, root := range []string{"consumer", "idempotency", "internal", "kafka", "ledger", "sqs"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range field.FindAllStringSubmatch(string(source), -1) {
				logged[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	_, logs, _ := strings.Cut(string(text), "## Logs")
	logs, _, _ = strings.Cut(logs, "## Health")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `[^|]+\\|").FindAllString(logs, -1) {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row, -1) {
			listed[m[1]] = true
		}
	}
	if !maps.Equal(logged, listed) {
		t.Errorf("the sources log %q\ndocs/telemetry.md names %q", slices.Sorted(maps.Keys(logged)), slices.Sorted(maps.Keys(listed)))
	}
}
