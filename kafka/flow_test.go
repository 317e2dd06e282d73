package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Shards by key that forget the topic make the same key of two topics wait for each other, for ever if one holds what
// the other waits for.
func TestPitfall56_SameKeyInTwoTopics(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		other := newName()
		if err := s.fake.CreateTopic(other, 1, nil); err != nil {
			t.Fatal(err)
		}
		key := []byte("customer 7")
		s.sendRecords(&kgo.Record{Topic: s.topic, Key: key, Value: []byte("waits")}, &kgo.Record{Topic: other, Key: key, Value: []byte("frees")})
		freed := make(chan struct{})
		b := newBook()
		r := s.start(func(ctx context.Context, m *consumer.Message) error {
			if m.Topic == other {
				close(freed)
			} else {
				select {
				case <-freed:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return b.handle(ctx, m)
		}, nil, kgo.ConsumeTopics(s.topic, other))
		eventually(t, "both are handled", func() bool { return b.len() == 2 })
		r.end()
		b.once(t, []string{"waits", "frees"})
	})
}

// Gaps in the offsets: aborted transactions, control records, what retention and compaction took. The position and the
// lag reach the end all the same.
func TestPitfall57_Gaps(t *testing.T) { onBoth(t, 1, gaps) }

func gaps(s *site) {
	t := s.t
	tx, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.TransactionalID(newName()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	transact := func(commit kgo.TransactionEndTry, end int64, values ...string) {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := tx.ProduceSync(t.Context(), &kgo.Record{Topic: s.topic, Value: []byte(v)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
		s.ended(end)
	}
	s.send(0, "a")
	transact(kgo.TryAbort, 4, "aborted 1", "aborted 2")
	transact(kgo.TryCommit, 7, "b", "c")
	s.send(0, "d")
	transact(kgo.TryAbort, 10, "aborted 3") // the log ends with a control record
	reader := metric.NewManualReader()
	c := quick()
	c.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	b := newBook()
	r := s.start(b.handle, c)
	s.caughtUp()
	if at := s.committed(0); at != 10 {
		t.Errorf("committed %d, want 10: 4 records, 3 aborted, 3 control records", at)
	}
	eventually(t, "the lag reaches 0", func() bool { lag, ok := lagOf(t, reader); return ok && lag == 0 })
	r.end()
	b.once(t, []string{"a", "b", "c", "d"})
}

// lagOf reads the lag metric of the only partition.
func lagOf(t *testing.T, reader *metric.ManualReader) (int64, bool) {
	t.Helper()
	return gaugeOf(t, reader, "ackledger.kafka.lag")
}

// gaugeOf reads a gauge with one series.
func gaugeOf(t *testing.T, reader *metric.ManualReader, name string) (int64, bool) {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if g, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == name && len(g.DataPoints) == 1 {
				return g.DataPoints[0].Value, true
			}
		}
	}
	return 0, false
}

// Compaction leaves holes of any size, also at the beginning.
func TestPitfall57_CompactedLog(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		s.topic = newName()
		if err := s.fake.CreateTopic(s.topic, 1, map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			s.sendRecords(&kgo.Record{Topic: s.topic, Key: fmt.Append(nil, i%3), Value: fmt.Append(nil, i)})
		}
		s.fake.Compact()
		if err := s.worker(nothing, nil).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Config.Window") {
			t.Fatalf("a compacted topic without a window: %v", err)
		}
		c := quick()
		c.Window, c.AllowShortWindow = time.Hour, true
		b := newBook()
		r := s.start(b.handle, c)
		s.caughtUp()
		if h := r.Health(); len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "compact") {
			t.Errorf("warnings: %q", h.Warnings)
		}
		r.end()
		if b.len() == 0 || b.len() >= 30 {
			t.Errorf("%d records after compaction", b.len())
		}
	})
}

// The retry of one key holds that key; the retry of a record holds its partition if the order is the partition's.
func TestPitfall58_RetryHoldsItsKeyOnly(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		for i, r := range []struct {
			partition int32
			key       string
		}{{0, "bad"}, {0, "bad"}, {0, "good"}, {1, "bad"}, {0, "good"}} {
			s.sendRecords(&kgo.Record{Topic: s.topic, Partition: r.partition, Key: []byte(r.key), Value: fmt.Append(nil, i)})
		}
		b := newBook()
		var heal atomic.Bool
		r := s.start(failing("0", &heal, b), patient())
		eventually(t, "the others are handled", func() bool { return b.len() == 3 })
		if b.runs["1"] != 0 {
			t.Error("a record ran before the one with its key that failed")
		}
		heal.Store(true)
		s.caughtUp()
		r.end()
		b.once(t, numbers("", 5))
		if slices.Index(b.list, "0") > slices.Index(b.list, "1") {
			t.Errorf("out of order: %v", b.list)
		}
	})
}

func TestPitfall58_RetryHoldsItsPartitionOnly(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		s.send(0, "bad", "behind 1", "behind 2")
		s.send(1, "other 1", "other 2")
		b := newBook()
		var heal atomic.Bool
		c := patient()
		c.Order = OrderPartition
		r := s.start(failing("bad", &heal, b), c)
		eventually(t, "the other partition is handled", func() bool { return b.len() == 2 })
		eventually(t, "the other partition is committed", func() bool { return s.committed(1) == 2 })
		if b.runs["behind 1"]+b.runs["behind 2"] != 0 {
			t.Error("a record ran before the one of its partition that failed")
		}
		heal.Store(true)
		s.caughtUp()
		r.end()
		if got := slices.DeleteFunc(b.list, func(v string) bool { return strings.HasPrefix(v, "other") }); !slices.Equal(got, []string{"bad", "behind 1", "behind 2"}) {
			t.Errorf("order: %v", got)
		}
	})
}

// failing is a handler that fails one body until it is healed.
func failing(body string, heal *atomic.Bool, b *book) consumer.HandlerFunc {
	return func(ctx context.Context, m *consumer.Message) error {
		if string(m.Body) == body && !heal.Load() {
			return consumer.RetryAfter(errors.New("not yet"), 10*time.Millisecond)
		}
		return b.handle(ctx, m)
	}
}

// patient allows as many attempts as a test that heals later needs.
func patient() *Config {
	c := quick()
	c.Attempts = 1000
	return c
}

// A record that is busy elsewhere blocks the commit, not the others; the commit jumps once it is done.
func TestPitfall59_BusyBlocksTheCommitNotTheOthers(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		b := newBook()
		c := quick()
		c.Order = OrderNone
		r := s.start(b.handle, c)
		r.owns(1)
		owner, err := s.ledger.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := owner.Claim(t.Context(), []ledger.Entry{{
			Key: s.key(r, 0, 0, 2), Fingerprint: ledger.BodyFingerprint([]byte("v2")), Delivery: []byte("x"), Window: time.Hour,
		}})
		if err != nil || claims[0].Answer != ledger.Run {
			t.Fatalf("%+v, %v", claims, err)
		}
		s.send(0, numbers("v", 50)...)
		eventually(t, "the others are handled", func() bool { return b.len() == 49 })
		eventually(t, "the commit reaches the busy record", func() bool { return s.committed(0) == 2 })
		errs, err := owner.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}})
		if err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		s.caughtUp()
		r.end()
		b.once(t, slices.DeleteFunc(numbers("v", 50), func(v string) bool { return v == "v2" }))
	})
}

// The ledger is out of reach while records come and the group rebalances: no handler starts, no offset moves, the
// membership lives, and all goes on by itself.
func TestPitfall60_LedgerDownDuringConsumptionAndRebalance(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		b := newBook()
		c := quick()
		c.Lease = time.Second
		first := s.start(b.handle, c)
		first.owns(2)
		s.send(0, numbers("before-", 20)...)
		s.caughtUp()
		eventually(t, "the last is handled", func() bool { return b.len() == 20 })
		gone := errors.New("the ledger is gone")
		s.ledger.FailBefore(func(context.Context, memory.Op) error { return gone })
		eventually(t, "the worker notices", func() bool { return !first.Health().Ready })
		s.send(0, numbers("during0-", 20)...)
		s.send(1, numbers("during1-", 20)...)
		other, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic),
			kgo.DisableAutoCommit(), kgo.HeartbeatInterval(100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		first.owns(1)
		other.Close()
		first.owns(2)
		for deadline := time.Now().Add(2 * c.Lease); time.Now().Before(deadline); {
			if at := s.committed(0); at != 20 || b.len() != 20 {
				t.Fatalf("without a ledger: committed %d, handled %d", at, b.len())
			}
		}
		if h := first.Health(); !h.Alive || h.LastError == "" {
			t.Errorf("health: %+v", h)
		}
		s.ledger.FailBefore(nil)
		eventually(t, "all are handled", func() bool { return b.len() == 60 })
		s.caughtUp()
		first.end()
	})
}

// A handler deaf to its cancelled context: it is reported, its record stays busy for others while its worker lives, and
// goes on after the restart.
func TestPitfall61_HungHandler(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		g, b := newGate(t), newBook()
		s.send(0, numbers("v", 5)...)
		c := quick()
		c.HandlerTimeout, c.SlowAfter, c.Drain = 50*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond
		first := s.start(func(ctx context.Context, m *consumer.Message) error {
			if string(m.Body) == "v1" {
				<-g.open
				return nil
			}
			return b.handle(ctx, m)
		}, c)
		eventually(t, "the hung handler is reported", func() bool {
			h := first.Health()
			return !h.Alive && len(h.Stalled) == 1 && h.Stalled[0].What == recordID(s.topic, 0, 1)
		})
		eventually(t, "the commit stops before it", func() bool { return s.committed(0) == 1 })
		first.stop()
		if err := first.wait(); err == nil || !strings.Contains(err.Error(), recordID(s.topic, 0, 1)) {
			t.Errorf("the drain does not name what still runs: %v", err)
		}
		second := s.start(b.handle, nil)
		s.caughtUp()
		second.end()
		b.once(t, numbers("v", 5))
	})
}

// Two workers each hold what the other's head waits for: by business key, two partitions with the same keys in opposite
// order. Behind a waiting head nothing stays claimed, so both go on.
func TestPitfall105_LanesInOppositeOrder(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		var forward, backward []string
		for i := range 200 {
			forward = append(forward, fmt.Sprintf("k%d", i))
		}
		backward = slices.Clone(forward)
		slices.Reverse(backward)
		s.send(0, forward...)
		s.send(1, backward...)
		c := quick()
		c.Order, c.Concurrency = OrderPartition, 4
		c.KeyFunc = func(m *consumer.Message) (string, error) { return string(m.Body), nil }
		b := newBook()
		workers := []*running{s.start(b.handle, c), s.start(b.handle, c)}
		s.caughtUp()
		for _, r := range workers {
			r.end()
		}
		b.once(t, forward)
	})
}

// StartLatest: a new group reads only what comes, and a partition that is added later is read from its beginning.
func TestStartLatest(t *testing.T) { onBoth(t, 2, startLatest) }

func startLatest(s *site) {
	t := s.t
	s.send(0, numbers("past0-", 5)...)
	s.send(1, numbers("past1-", 5)...)
	c := quick()
	c.Start = StartLatest
	b := newBook()
	first, second := s.start(b.handle, c), s.start(b.handle, c)
	first.owns(1)
	second.owns(1)
	s.send(0, "now0")
	s.send(1, "now1")
	eventually(t, "what comes is handled", func() bool { return b.len() == 2 })
	first.end()
	second.end()
	if _, err := s.adm.CreatePartitions(t.Context(), 1, s.topic); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the producer sees the new partition", func() bool {
		err := s.prod.ProduceSync(t.Context(), &kgo.Record{Topic: s.topic, Partition: 2, Value: []byte("added")}).FirstErr()
		s.prod.ForceMetadataRefresh()
		return err == nil
	})
	again := s.start(b.handle, c)
	eventually(t, "the added partition is read from its beginning", func() bool { return b.len() == 3 })
	s.caughtUp()
	again.end()
	b.once(t, []string{"now0", "now1", "added"})
}

func TestPauseAndResume(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		b := newBook()
		w := s.worker(b.handle, nil)
		w.Pause() // also before Run
		r := runWorker(t, w)
		r.owns(1)
		s.send(0, numbers("v", 10)...)
		eventually(t, "it sees that the log grows", func() bool {
			n := int64(0)
			r.table.lags(func(_ place, lag int64) { n = lag })
			return n == 10
		})
		if b.len() != 0 || r.Health().Ready {
			t.Errorf("paused, and handled %d; health %+v", b.len(), r.Health())
		}
		r.Resume()
		s.caughtUp()
		r.ready()
		r.end()
		b.once(t, numbers("v", 10))
	})
}
