package cases

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

const watermillNote = "Router, Kafka subscriber with its default sarama settings from the oldest offset (one message of a " +
	"partition at a time), middleware.Deduplicator with an ExpiringKeyRepository in PostgreSQL (INSERT … ON CONFLICT DO NOTHING " +
	"by partition and offset, 32 connections). A message whose handler crashed is dropped as a duplicate afterwards. " +
	"Timed from the first message to the last handler; its commits, once a second, are not waited for"

// seen is the deduplicator's state in PostgreSQL.
type seen struct{ pool *pgxpool.Pool }

// IsDuplicate implements middleware.ExpiringKeyRepository.
func (s seen) IsDuplicate(ctx context.Context, key string) (bool, error) {
	tag, err := s.pool.Exec(ctx, "INSERT INTO seen (key, expiry) VALUES ($1, now() + interval '1 day') ON CONFLICT (key) DO NOTHING", key)
	return tag.RowsAffected() == 0, err
}

// position is the cheapest key that tells two records apart.
func position(m *message.Message) (string, error) {
	partition, ok := wkafka.MessagePartitionFromCtx(m.Context())
	offset, okToo := wkafka.MessagePartitionOffsetFromCtx(m.Context())
	if !ok || !okToo {
		return "", errors.New("the message carries no position")
	}
	return fmt.Sprintf("%d-%d", partition, offset), nil
}

func watermillRun(ctx context.Context, r *suite.Run) (suite.Result, error) {
	c, topic, err := newTopic(ctx, r, r.N)
	if err != nil {
		return nil, err
	}
	d, schema, drop, err := newSchema(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Cleanup(drop)
	pool, err := newPool(ctx, d.url, 32, map[string]string{"search_path": schema})
	if err != nil {
		return nil, err
	}
	r.Cleanup(func() error { pool.Close(); return nil })
	if _, err := pool.Exec(ctx, "CREATE TABLE seen (key text PRIMARY KEY, expiry timestamptz NOT NULL)"); err != nil {
		return nil, err
	}
	conf := wkafka.DefaultSaramaSubscriberConfig()
	conf.Consumer.Offsets.Initial = sarama.OffsetOldest
	sub, err := wkafka.NewSubscriber(wkafka.SubscriberConfig{Brokers: c.brokers, Unmarshaler: wkafka.DefaultMarshaler{},
		OverwriteSaramaConfig: conf, ConsumerGroup: c.newGroup(r)}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	var first, handled atomic.Int64
	var took time.Duration
	done := make(chan struct{})
	router.AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			first.CompareAndSwap(0, time.Now().UnixNano())
			return next(m)
		}
	}, (&middleware.Deduplicator{KeyFactory: position, Repository: seen{pool}, Timeout: time.Minute}).Middleware)
	router.AddConsumerHandler("bench", topic, sub, func(*message.Message) error {
		if handled.Add(1) == int64(r.N) {
			took = time.Duration(time.Now().UnixNano() - first.Load())
			close(done)
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	select {
	case <-done:
	case err := <-ended:
		return nil, errors.Join(fmt.Errorf("watermill ended after %d of %d records", handled.Load(), r.N), err)
	}
	if err := errors.Join(router.Close(), <-ended); err != nil {
		return nil, err
	}
	return suite.Throughput(r.N, took), nil
}
