package dashboard

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
)

// share runs a worker of a share group on a real broker (the fake one has none), and waits until it has handled a record.
func (s *site) share() {
	s.Helper()
	brokers, name := services.Kafka(s), services.Name(s)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(s.Context(), 1, 1, nil, name); err != nil {
		s.Fatal(err)
	}
	err = services.SetShareGroup(s.Context(), client, name, map[string]string{
		"share.delivery.count.limit": "10", "share.isolation.level": "read_committed", "share.auto.offset.reset": "earliest",
		"share.record.lock.duration.ms": "30000",
	})
	if err != nil {
		s.Fatal(err)
	}
	handled := make(chan struct{}, 1)
	w, err := kafka.NewShareWorker([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ShareGroup(name), kgo.ConsumeTopics(name)}, s.store,
		consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
			handled <- struct{}{}
			return nil
		}), &kafka.ShareConfig{Options: consumer.Options{MeterProvider: s.meters, Attempts: 5}})
	if err != nil {
		s.Fatal(err)
	}
	s.start(w)
	if err := client.ProduceSync(s.Context(), &kgo.Record{Topic: name, Value: []byte("shared")}).FirstErr(); err != nil {
		s.Fatal(err)
	}
	select {
	case <-handled:
	case <-time.After(patience):
		s.Fatal("the share group's record is not handled")
	}
}
