package storm_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// log is a topic under test, with its oracle.
type log struct {
	t       *testing.T
	client  *kgo.Client
	admin   *kadm.Client
	topic   string
	group   string
	records int
}

const partitions = 8

func newLog(t *testing.T, records int, partitions int32) *log {
	t.Helper()
	return newLogOn(t, services.Kafka(t), records, partitions)
}

func newLogOn(t *testing.T, brokers []string, records int, partitions int32) *log {
	t.Helper()
	l := &log{t: t, topic: services.Name(t), group: services.Name(t), records: records}
	var err error
	l.client, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(l.topic), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.client.Close)
	l.admin = kadm.NewClient(l.client)
	if _, err := l.admin.CreateTopic(t.Context(), partitions, 1, nil, l.topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.admin.DeleteTopic(context.Background(), l.topic) })
	return l
}

// produce sends the records from to to-1, keyed, so that order by key has work to do.
func (l *log) produce(from, to int) {
	l.t.Helper()
	results := make(chan error, to-from)
	for i := from; i < to; i++ {
		l.client.Produce(l.t.Context(), &kgo.Record{
			Key: fmt.Appendf(nil, "key %d", i%500), Value: fmt.Appendf(nil, "record %d", i),
		}, func(_ *kgo.Record, err error) { results <- err })
	}
	for range to - from {
		if err := <-results; err != nil {
			l.t.Errorf("produce: %v", err)
		}
	}
}

// committed returns the group's committed offsets by partition.
func (l *log) committed(ctx context.Context) (map[int32]int64, error) {
	offsets, err := l.admin.FetchOffsets(ctx, l.group)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == l.topic && o.Err == nil && o.At >= 0 {
			out[o.Partition] = o.At
		}
	})
	return out, nil
}

// sample compares, until ctx is done, the committed offsets with the ledger and with the effects. It reads the offsets
// first, so whatever they passed must be terminal, and must be there.
func (l *log) sample(ctx context.Context, d *database) (samples int) {
	terminal, err := l.terminal(ctx, d)
	if err != nil {
		l.t.Error(err)
		return 0
	}
	for ctx.Err() == nil {
		offsets, err := l.committed(ctx)
		if err != nil {
			continue
		}
		for p, at := range offsets {
			if wrong, ok := terminal(p, at); wrong != "" {
				l.t.Error(wrong)
				return samples
			} else if !ok {
				continue // the database is away
			}
			n, ok := d.tryCount(ctx, `SELECT count(DISTINCT off) FROM effect WHERE part = $1 AND off < $2`, p, at)
			if ok && int64(n) != at {
				l.t.Errorf("partition %d: offset %d is committed, %d of the records before it had their effect", p, at, n)
				return samples
			}
			if ok {
				samples++
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	return samples
}

// terminal asks the ledger for each record of a partition below an offset, and says which is not terminal. What was so
// once is not asked for again. It is not ok when the ledger cannot be asked.
func (l *log) terminal(ctx context.Context, d *database) (func(p int32, at int64) (wrong string, ok bool), error) {
	meta, err := l.admin.Metadata(ctx, l.topic)
	for ctx.Err() == nil && (err != nil || meta.Topics[l.topic].ID == kadm.TopicID{}) { // the topic is young
		meta, err = l.admin.Metadata(ctx, l.topic)
	}
	if err != nil {
		return nil, err
	}
	reader, err := postgres.New(ctx, d.pool, nil)
	if err != nil {
		return nil, err
	}
	l.t.Cleanup(reader.Close)
	scope := "kafka:" + kafka.SourceName(meta.Cluster, l.topic) + "/" + l.group
	seen := map[int32]int64{}
	return func(p int32, at int64) (string, bool) {
		name := kafka.LogName(meta.Cluster, l.topic, [16]byte(meta.Topics[l.topic].ID), p)
		for seen[p] < at {
			var keys []ledger.Key
			for o := seen[p]; o < at && len(keys) < ledger.MaxStatus; o++ {
				keys = append(keys, ledger.Key{
					Scope: scope, ID: fmt.Appendf(nil, "%s-%d-%d", l.topic, p, o), Pos: &ledger.Position{Log: name, Offset: o},
				})
			}
			found, err := reader.Status(ctx, keys)
			if err != nil {
				return "", false
			}
			for i, s := range found {
				if s.State != ledger.Succeeded && s.State != ledger.Failed {
					return fmt.Sprintf("partition %d: offset %d is committed, record %d is %v in the ledger", p, at, keys[i].Pos.Offset, s.State), true
				}
			}
			seen[p] += int64(len(keys))
		}
		return "", true
	}, nil
}

// lag says how far the committed offsets are from the end; empty at the end.
func (l *log) lag() string {
	offsets, err := l.committed(l.t.Context())
	if err != nil {
		return err.Error()
	}
	ends, err := l.admin.ListEndOffsets(l.t.Context(), l.topic)
	if err != nil {
		return err.Error()
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset - offsets[o.Partition] })
	if left > 0 {
		return fmt.Sprintf("%d of %d records are not committed", left, l.records)
	}
	return ""
}

// TestKafkaStorm is the main job under fire: processes killed, others joining and leaving, the database stopped.
func TestKafkaStorm(t *testing.T) {
	t.Parallel()
	records := map[kafka.Audit]int{kafka.AuditRanges: 10_000, kafka.AuditRows: 3_000}
	if long() {
		records = map[kafka.Audit]int{kafka.AuditRanges: 100_000, kafka.AuditRows: 100_000}
	}
	for name, audit := range audits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kafkaStorm(t, records[audit], audit)
		})
	}
}

// audits are the two ways in which the ledger may hold records.
var audits = map[string]kafka.Audit{"ranges": kafka.AuditRanges, "rows": kafka.AuditRows}

// kafkaStorm stops the database in the middle. The last third is produced while it is away, so that work waits for it,
// however quick the processes were.
func kafkaStorm(t *testing.T, records int, audit kafka.Audit) {
	every := 4 * time.Second
	if records < 50_000 { // it is over in some seconds
		every = 2500 * time.Millisecond
	}
	d := newDatabase(t)
	l := newLog(t, records, partitions)
	c := newCrew(t, orders{
		Database: d.server.URL(), Brokers: services.Kafka(t), Topic: l.topic, Group: l.group, Audit: audit,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sampled := make(chan int, 1)
	go func() { sampled <- l.sample(ctx, d) }()
	for range 3 {
		c.start()
	}
	first := records * 2 / 3
	l.produce(0, first)
	if t.Failed() {
		t.FailNow()
	}
	c.storm(d, first, records/3, every)
	from, to := d.outage(t, 20*time.Second, func() { l.produce(first, records) })
	expectSilence(t, c, from, to)
	c.storm(d, records, records*9/10, every)
	eventually(t, 5*time.Minute, l.lag)
	cancel()
	for _, m := range c.all() {
		c.dismiss(m)
	}
	expectEffects(t, d, records, records)
	c.expectTrouble(t, 2, records*9/10)
	samples := <-sampled
	if samples == 0 {
		t.Error("no committed offset was sampled")
	}
	t.Logf("%d records, %d processes, %d killed, %d left, %d samples of committed offsets",
		records, c.started, c.killed, c.left, samples)
}

// progress says that fewer than want of all effects are there; empty when they are.
func progress(d *database, all, want int) string {
	n, ok := d.tryCount(context.Background(), `SELECT count(*) FROM effect`)
	if ok && n >= want {
		return ""
	}
	return fmt.Sprintf("%d effects of %d, waiting for %d", n, all, want)
}
