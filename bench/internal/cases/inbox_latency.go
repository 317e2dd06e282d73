package cases

import (
	"context"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
)

const (
	inboxLatency   = "kafka, one insert at 200/s"
	inboxPerSecond = 200
)

// inboxLatencyCases time records from when they were due at the producer until their effect is committed.
func inboxLatencyCases() []suite.Case {
	n := suite.Size{Full: 4000, Quick: 600, Smoke: 30}
	const note = "from when a record was due at its producer, which does not linger, until its effect was committed"
	return []suite.Case{
		{Group: inboxLatency, Name: "inbox by hand", Main: suite.P50, N: n, Note: note + "; key, effect, COMMIT: four round trips, no fence", Run: inboxAtRate},
		{Group: inboxLatency, Name: "ours, InTx", Main: suite.P50, N: n, Note: note + "; PostgreSQL ledger, ranges (default)", Run: inTxAtRate(kafka.AuditRanges)},
		{Group: inboxLatency, Name: "ours, InTx, rows", Main: suite.P50, N: n, Note: note + "; PostgreSQL ledger, rows", Run: inTxAtRate(kafka.AuditRows)},
	}
}

func inboxAtRate(ctx context.Context, r *suite.Run) (suite.Result, error) {
	pool, err := inboxPool(ctx, r)
	if err != nil {
		return nil, err
	}
	each := eachInbox(pool, inboxByHand)
	res, err := sendingAtRate(ctx, r, func(ctx context.Context, c *cluster, topic string, handled func([]byte)) error {
		_, err := c.bareLoop(ctx, r, topic, func(ctx context.Context, records []*kgo.Record) error {
			g, ctx := errgroup.WithContext(ctx)
			for _, rec := range records {
				g.Go(func() error {
					defer handled(rec.Value)
					return each(ctx, []*kgo.Record{rec})
				})
			}
			return g.Wait()
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, countEffects(ctx, pool, r.N)
}

func inTxAtRate(audit kafka.Audit) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, insert, err := inserting(ctx, r)
		if err != nil {
			return nil, err
		}
		cfg := kafka.Config{Audit: audit, Options: consumer.Options{Concurrency: txHandlers}}
		return sendingAtRate(ctx, r, func(ctx context.Context, c *cluster, topic string, handled func([]byte)) error {
			_, err := c.consume(ctx, r, topic, l, cfg, counted(func(ctx context.Context, m *consumer.Message) error {
				err := insert(ctx, m)
				handled(m.Body)
				return err
			}))
			return err
		})
	}
}

// sendingAtRate sends records to a topic of their own while consume runs, which calls handled with the body of each. The first, one
// for each partition, are not timed: by then the consumer is there.
func sendingAtRate(ctx context.Context, r *suite.Run, consume func(context.Context, *cluster, string, func([]byte)) error) (suite.Result, error) {
	c, topic, producer, err := latencyTopic(ctx, r)
	if err != nil {
		return nil, err
	}
	done := make([]chan struct{}, r.N)
	for i := range done {
		done[i] = make(chan struct{}, 1)
	}
	handled := func(body []byte) {
		select {
		case done[binary.BigEndian.Uint64(body)] <- struct{}{}:
		default: // it came again
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	send := func(i int) error {
		value := binary.BigEndian.AppendUint64(make([]byte, 0, bodySize), uint64(i))
		if err := producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value[:bodySize]}).FirstErr(); err != nil {
			return err
		}
		select {
		case <-done[i]:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var res suite.Result
	g.Go(func() error { return consume(ctx, c, topic, handled) })
	g.Go(func() (err error) {
		for i := range partitions {
			if err := send(i); err != nil {
				return err
			}
		}
		res, err = atRate(ctx, r.N-partitions, inboxPerSecond, func(i int) error { return send(partitions + i) })
		return err
	})
	return res, g.Wait()
}

// latencyTopic makes an empty topic and a producer that sends each record at once.
func latencyTopic(ctx context.Context, r *suite.Run) (*cluster, string, *kgo.Client, error) {
	c, err := kafkaServer(ctx, r)
	if err != nil {
		return nil, "", nil, err
	}
	topic := "bench-" + newName()
	if _, err := c.admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		return nil, "", nil, err
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, "", nil, err
	}
	r.Cleanup(func() error {
		producer.Close()
		_, err := c.admin.DeleteTopic(context.Background(), topic)
		return err
	})
	return c, topic, producer, nil
}
