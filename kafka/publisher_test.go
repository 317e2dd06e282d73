package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
)

func publication(source, key, id string, body []byte) consumer.Publication {
	s := consumer.NewStamp(source, id, body)
	return consumer.Publication{Outgoing: ledger.Outgoing{Key: []byte(key), ID: id, Body: body,
		Headers: []ledger.Header{{Name: "a", Value: []byte("1")}, {Name: "a"}, {Name: consumer.StampName, Value: []byte("forged")}}}, Source: source, Stamp: &s}
}

// publishing makes a topic, and a publisher to it.
func publishing(t *testing.T, configs map[string]*string, opts ...kgo.Opt) (*kafka.Publisher, string) {
	t.Helper()
	topic := services.Name(t)
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(services.Kafka(t)...), kgo.UnknownTopicRetries(0)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if configs != nil {
		adm := kadm.NewClient(client)
		if _, err := adm.CreateTopic(t.Context(), 3, 1, configs, topic); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = adm.DeleteTopic(context.Background(), topic) })
		for there := false; !there; { // the cluster takes a moment
			configs, err := adm.DescribeTopicConfigs(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			config, err := configs.On(topic, nil)
			there = err == nil && config.Err == nil
		}
	}
	p, err := kafka.NewPublisher(client, topic)
	if err != nil {
		t.Fatal(err)
	}
	return p, topic
}

func consumed(t *testing.T, topic string, n int) (all []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(services.Kafka(t)...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(all) < n && ctx.Err() == nil {
		all = append(all, client.PollFetches(ctx).Records()...)
	}
	if len(all) != n {
		t.Fatalf("%d records, want %d", len(all), n)
	}
	return all
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	p, topic := publishing(t, map[string]*string{})
	source, err := p.Source(t.Context())
	if err != nil || !strings.HasSuffix(source, "/"+topic) {
		t.Fatal(source, err)
	}
	var messages []consumer.Publication
	for i := range 100 {
		messages = append(messages, publication(source, fmt.Sprint("k", i%7), fmt.Sprint("id", i), fmt.Append(nil, i)))
	}
	messages = append(messages, consumer.Publication{Outgoing: ledger.Outgoing{ID: "bare"}})
	for i, err := range p.Publish(t.Context(), messages) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	last := map[string]int{}
	for _, r := range consumed(t, topic, 101) {
		if r.Key == nil {
			if len(r.Value) > 0 || len(r.Headers) > 0 {
				t.Errorf("bare: %+v", r)
			}
			continue
		}
		var i int
		if _, err := fmt.Sscan(string(r.Value), &i); err != nil {
			t.Fatal(err)
		}
		if before, ok := last[string(r.Key)]; ok && i < before {
			t.Errorf("%s: %d behind %d", r.Key, i, before)
		}
		last[string(r.Key)] = i
		stamp, err := consumer.ParseStamp(r.Headers[len(r.Headers)-1].Value)
		if err != nil || len(r.Headers) != 3 || stamp.ID != fmt.Sprint("id", i) || !stamp.Counts(source, ledger.BodyFingerprint(r.Value)) {
			t.Errorf("record %d: %+v, %v", i, r.Headers, err)
		}
	}
}

// TestPublisherTooLarge: what is too large is refused for good, what is behind it under its key waits, and the others are sent.
func TestPublisherTooLarge(t *testing.T) {
	t.Parallel()
	p, topic := publishing(t, map[string]*string{}, kgo.ProducerBatchMaxBytes(10_000))
	errs := p.Publish(t.Context(), []consumer.Publication{publication("", "k", "1", []byte("1")), publication("", "k", "2", bytes.Repeat([]byte("x"), 10_000)),
		publication("", "k", "3", []byte("3")), publication("", "l", "4", []byte("4"))})
	if errs[0] != nil || errs[3] != nil || !consumer.IsTerminal(errs[1]) || !ledger.Unavailable(errs[2]) {
		t.Fatalf("%v", errs)
	}
	consumed(t, topic, 2)
}

// TestPublisherRefuses: a client whose batches the topic would refuse is told so, which is an outage, and a topic that is not there is none.
func TestPublisherRefuses(t *testing.T) {
	t.Parallel()
	small := "5000"
	p, _ := publishing(t, map[string]*string{"max.message.bytes": &small})
	err := p.Publish(t.Context(), []consumer.Publication{publication("", "k", "1", []byte("1"))})[0]
	if consumer.IsTerminal(err) || !ledger.Unavailable(err) || !strings.Contains(err.Error(), "ProducerBatchMaxBytes must be at most") {
		t.Fatalf("%v", err)
	}
	missing, _ := publishing(t, nil)
	err = missing.Publish(t.Context(), []consumer.Publication{publication("", "k", "1", []byte("1"))})[0]
	if err == nil || consumer.IsTerminal(err) || ledger.Unavailable(err) {
		t.Fatalf("no such topic: %v", err)
	}
	if source, err := missing.Source(t.Context()); err != nil || source == "" {
		t.Fatalf("the source of no such topic: %q, %v", source, err)
	}
}

func TestPublisherOutage(t *testing.T) {
	t.Parallel()
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p, err := kafka.NewPublisher(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.Publish(ctx, []consumer.Publication{publication("", "k", "1", nil)})[0]; !ledger.Unavailable(err) {
		t.Fatalf("%v, want an outage", err)
	}
}

func TestNewPublisherRefuses(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]kgo.Opt{
		"acks":          {kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
		"idempotence":   {kgo.DisableIdempotentWrite()},
		"transactional": {kgo.TransactionalID("x")},
		"flushing":      {kgo.ManualFlushing()},
	} {
		client, err := kgo.NewClient(append(opts, kgo.SeedBrokers("127.0.0.1:1"))...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kafka.NewPublisher(client, "orders"); err == nil {
			t.Errorf("%s: no error", name)
		}
		client.Close()
	}
	if _, err := kafka.NewPublisher(nil, "orders"); err == nil {
		t.Error("nil: no error")
	}
}
