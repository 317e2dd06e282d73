package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
)

const (
	partitions = 8
	bodySize   = 200
	keysEach   = 1250 // distinct keys in each partition
)

// cluster is a Kafka cluster and a client to administer it.
type cluster struct {
	brokers []string
	client  *kgo.Client
	admin   *kadm.Client
}

// kafkaServer starts Kafka, or takes the one that the environment names, once.
func kafkaServer(ctx context.Context, r *suite.Run) (*cluster, error) {
	return suite.Once(r.All, "Apache Kafka", func() (*cluster, func() error, error) {
		brokers, stop := strings.FieldsFunc(os.Getenv(services.EnvKafka), func(r rune) bool { return r == ',' || r == ' ' }), func() error { return nil }
		if len(brokers) == 0 {
			server, err := services.StartKafka(ctx, services.KafkaOptions{})
			if err != nil {
				return nil, nil, err
			}
			brokers, stop = server.Brokers(), server.Close
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5*time.Millisecond))
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		admin := kadm.NewClient(client)
		versions, err := admin.ApiVersions(ctx)
		if err != nil {
			client.Close()
			return nil, nil, errors.Join(err, stop())
		}
		for _, v := range versions.Sorted() {
			r.All.Note("Apache Kafka", fmt.Sprintf("%s, broker %d; topics of %d partitions, records of %d B, %d keys in each partition",
				v.VersionGuess(), v.NodeID, partitions, bodySize, keysEach))
		}
		return &cluster{brokers, client, admin}, func() error {
			client.Close()
			return stop()
		}, nil
	})
}

// newTopic makes a topic with n records, n/8 in each partition, once for all cases that read so many.
func newTopic(ctx context.Context, r *suite.Run, n int) (*cluster, string, error) {
	return topicOf(ctx, r, n, partitions)
}

// topicOf is newTopic for so many partitions.
func topicOf(ctx context.Context, r *suite.Run, n, partitions int) (*cluster, string, error) {
	c, err := kafkaServer(ctx, r)
	if err != nil {
		return nil, "", err
	}
	topic, err := suite.Once(r.All, fmt.Sprintf("topic of %d records in %d partitions", n, partitions), func() (string, func() error, error) {
		topic := "bench-" + newName()
		if _, err := c.admin.CreateTopic(ctx, int32(partitions), 1, nil, topic); err != nil {
			return "", nil, err
		}
		remove := func() error { _, err := c.admin.DeleteTopic(context.Background(), topic); return err }
		if err := c.produce(ctx, topic, n, partitions); err != nil {
			return "", nil, errors.Join(err, remove())
		}
		return topic, remove, nil
	})
	return c, topic, err
}

// produce writes n records of 200 B. Record i goes to partition i%partitions and has one of 1,250 keys of that partition.
func (c *cluster) produce(ctx context.Context, topic string, n, partitions int) error {
	var failed atomic.Pointer[error]
	body := bytes.Repeat([]byte("x"), bodySize)
	for i := range n {
		value := bytes.Clone(body)
		copy(value, fmt.Appendf(nil, `{"order":%d}`, i))
		record := &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value,
			Key: fmt.Appendf(nil, "key-%d-%d", i%partitions, i/partitions%keysEach)}
		c.client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := c.client.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// newGroup names a consumer group of the run's own, which is deleted after it.
func (c *cluster) newGroup(r *suite.Run) string {
	group := "bench-" + newName()
	r.Cleanup(func() error {
		_, err := c.admin.DeleteGroup(context.Background(), group)
		return err
	})
	return group
}

// committed fails unless the group has committed n records.
func (c *cluster) committed(ctx context.Context, group string, n int) error {
	sum, err := c.sum(ctx, group)
	if err == nil && sum != int64(n) {
		err = fmt.Errorf("group %s has committed %d records, want %d", group, sum, n)
	}
	return err
}

// sum is how many records a group has committed.
func (c *cluster) sum(ctx context.Context, group string) (sum int64, err error) {
	offsets, err := c.admin.FetchOffsets(ctx, group)
	offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum, err
}

// firstFetch starts the clock when a client asks for records for the first time: it is a member of the group then and
// has its partitions. The same for every row that uses this client.
type firstFetch struct{ at atomic.Int64 }

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (f *firstFetch) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	const fetch, shareFetch = 1, 78 // the API keys
	if (key == fetch || key == shareFetch) && f.at.Load() == 0 {
		f.at.CompareAndSwap(0, time.Now().UnixNano())
	}
}

func (f *firstFetch) since() time.Duration { return time.Duration(time.Now().UnixNano() - f.at.Load()) }

var _ kgo.HookBrokerWrite = (*firstFetch)(nil)

// consume runs a worker of ours over a topic of n records until all are handled by h.
func consume(ctx context.Context, r *suite.Run, l ledger.Ledger, h consumer.HandlerFunc, cfg kafka.Config) (suite.Result, error) {
	return consumeCounted(ctx, r, l, cfg, counted(h))
}

// counted counts what h has done with success.
func counted(h consumer.HandlerFunc) func(count func(int)) consumer.Handler {
	return func(count func(int)) consumer.Handler {
		return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			if err := h(ctx, m); err != nil {
				return err
			}
			count(1)
			return nil
		})
	}
}

// consumeCounted is consume for a handler that counts what it has done by itself. The clock stops when Run has returned:
// everything is settled and committed then.
func consumeCounted(ctx context.Context, r *suite.Run, l ledger.Ledger, cfg kafka.Config, handler func(count func(int)) consumer.Handler) (suite.Result, error) {
	return consumeOf(ctx, r, partitions, l, cfg, handler)
}

// consumeOf is consumeCounted for a topic of so many partitions.
func consumeOf(ctx context.Context, r *suite.Run, partitions int, l ledger.Ledger, cfg kafka.Config,
	handler func(count func(int)) consumer.Handler,
) (suite.Result, error) {
	c, topic, err := topicOf(ctx, r, r.N, partitions)
	if err != nil {
		return nil, err
	}
	return c.consume(ctx, r, topic, l, cfg, handler)
}

// consume is consumeOf for a topic that has so many records, or gets them meanwhile.
func (c *cluster) consume(ctx context.Context, r *suite.Run, topic string, l ledger.Ledger, cfg kafka.Config,
	handler func(count func(int)) consumer.Handler,
) (suite.Result, error) {
	group, clock := c.newGroup(r), &firstFetch{}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var handled atomic.Int64
	count := func(n int) {
		if handled.Add(int64(n)) >= int64(r.N) {
			stop()
		}
	}
	w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.WithHooks(clock)},
		l, handler(count), &cfg)
	if err != nil {
		return nil, err
	}
	if err := w.Run(running); err != nil {
		return nil, err
	}
	took := clock.since()
	if got := handled.Load(); got != int64(r.N) {
		return nil, errors.Join(fmt.Errorf("%d of %d records were handled", got, r.N), ctx.Err())
	}
	return suite.Throughput(r.N, took), c.committed(ctx, group, r.N)
}

func noop(context.Context, *consumer.Message) error { return nil }
