package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.opentelemetry.io/otel/sdk/metric"
)

// What cannot heal ends Run with an error that says what and where; nothing spins in silence.

func TestPitfall63_UnknownTopic(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.topic = "not-there"
	err := s.worker(nothing, nil).Run(t.Context())
	if !errors.Is(err, kerr.UnknownTopicOrPartition) || !strings.Contains(err.Error(), `"not-there" does not exist: make it`) {
		t.Errorf("Run: %v", err)
	}
}

func TestPitfall63_RefusedLogin(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "right"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	// kfake hangs up on a wrong password; a broker answers (KIP-152).
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !strings.HasSuffix(string(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes), "wrong") {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	s := newSite(t, c.ListenAddrs(), "orders", kgo.SASL(plain.Auth{User: "u", Pass: "right"}.AsMechanism()))
	if err := s.worker(nothing, nil, kgo.SASL(plain.Auth{User: "u", Pass: "wrong"}.AsMechanism())).Run(t.Context()); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a wrong password: %v", err)
	}
	s.send(0, "v")
	b := newBook()
	r := s.start(b.handle, nil, kgo.SASL(plain.Auth{User: "u", Pass: "right"}.AsMechanism()))
	s.caughtUp()
	r.end()
}

// Rights that are taken away, at each of the requests that a worker lives on.
func TestPitfall63_ForbiddenRequests(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]kfake.Fault{
		"group":  {Keys: []kmsg.Key{kmsg.JoinGroup}, TopLevel: true, Err: kerr.GroupAuthorizationFailed, Count: -1},
		"commit": {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"fetch":  {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"fenced": {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.FencedInstanceID, Count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakeSite(t, 1)
			s.fake.Fault(f)
			s.send(0, "v")
			r := s.start(nothing, nil)
			if err := r.wait(); !errors.Is(err, f.Err) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// What heals is tried again, and Health says what it is meanwhile.
func TestPitfall63_TroubleThatHeals(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		h := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, TopLevel: true, Err: kerr.GroupMaxSizeReached, Count: -1})
		s.send(0, numbers("v", 5)...)
		b := newBook()
		reader, c := metric.NewManualReader(), quick()
		c.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		r := s.start(b.handle, c)
		eventually(t, "the trouble is reported", func() bool { return strings.Contains(r.Health().LastError, "GROUP_MAX_SIZE_REACHED") })
		if n, ok := gaugeOf(t, reader, "ackledger.ready"); r.Health().Ready || n != 0 || !ok {
			t.Error("ready without a group")
		}
		h.Remove()
		s.caughtUp()
		r.ready()
		eventually(t, "the metric says so", func() bool { n, _ := gaugeOf(t, reader, "ackledger.ready"); return n == 1 })
		r.end()
		b.once(t, numbers("v", 5))
	})
}

// Brokers that are away when Run begins, and come.
func TestPitfall63_NoBroker(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.brokers = []string{"127.0.0.1:1"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := s.worker(nothing, nil, kgo.RequestRetries(1), kgo.RetryTimeout(200*time.Millisecond))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	eventually(t, "the trouble is reported", func() bool { return strings.Contains(w.Health().LastError, "127.0.0.1:1") })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// Retention was faster than the consumer. By default Run ends and says what is missing; with ResetEarliest it goes on.
func TestPitfall63_OffsetOutOfRange(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]int64{"below the log": 3, "above the log": 1000} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, audit Audit) { outOfRange(fakeSite(t, 1).with(audit), offset) })
		})
	}
}

func outOfRange(s *site, offset int64) {
	t, values := s.t, numbers("v", 10)
	s.send(0, values...)
	if err := s.fake.DeleteRecords(s.topic, 0, 5); err != nil {
		t.Fatal(err)
	}
	s.setOffset(0, offset)
	r := s.start(nothing, nil)
	if err := r.wait(); !errors.Is(err, ErrOutOfRange) || !strings.Contains(err.Error(), s.topic) {
		t.Errorf("Run: %v", err)
	}
	if at := s.committed(0); at != offset {
		t.Errorf("the offset was moved to %d", at)
	}
	c := quick()
	c.Reset = ResetEarliest
	b := newBook()
	again := s.start(b.handle, c)
	eventually(t, "what is left is handled", func() bool { return b.len() == 5 })
	eventually(t, "and committed", func() bool { return s.committed(0) == 10 })
	if h := again.Health(); len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], s.topic) {
		t.Errorf("Health does not say that records are gone: %q", h.Warnings)
	}
	again.end()
	b.once(t, values[5:])
}

// The broker lost records behind what was read. By default Run ends; with ResetEarliest the partition goes on where its
// log does, with a tracker of its own, and what runs of before moves nothing.
func TestPitfall63_DataLoss(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		loss := &kgo.ErrDataLoss{Partition: 0, ConsumedTo: 8, ConsumedToEpoch: 1, ResetTo: 5, ResetToEpoch: 2}
		s := fakeSite(t, 1).with(audit)
		r := s.start(nothing, nil)
		r.owns(1)
		r.fetchError(s.topic, 0, loss)
		if err := r.wait(); !errors.Is(err, ErrDataLoss) || !strings.Contains(err.Error(), s.topic) {
			t.Errorf("Run: %v", err)
		}
		c := quick()
		c.Reset = ResetEarliest
		again := s.start(nothing, c)
		again.owns(1)
		s.send(0, numbers("v", 8)...)
		s.caughtUp()
		old := again.table.get(place{Topic: s.topic, Partition: 0})
		again.fetchError(s.topic, 0, loss)
		now := again.table.get(place{Topic: s.topic, Partition: 0})
		if now == old || now == nil || now.Start != 5 || now.Epoch != 2 || !old.Gone() {
			t.Fatalf("the partition goes on with %+v", now)
		}
		fresh, _, rewound := again.table.accept(now, []*kgo.Record{{Topic: s.topic, Offset: 5, LeaderEpoch: 2}})
		if len(fresh) != 1 || rewound != nil {
			t.Errorf("the record at 5 of the new epoch: %d accepted, rewound %v", len(fresh), rewound)
		}
		fresh, _, rewound = again.table.accept(now, []*kgo.Record{{Topic: s.topic, Offset: 5, LeaderEpoch: 3}})
		if len(fresh) != 0 || rewound == nil {
			t.Errorf("a log that was written anew once more: %d accepted, rewound %v", len(fresh), rewound)
		}
	})
}

// Records that were not lost are in hand when the broker says that it has lost those behind them. They are not passed over:
// the partition begins again with the first of them.
func TestPitfall63_DataLossPassesNothingOver(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		values := numbers("v", 10)
		s.send(0, values...)
		b, slow := newBook(), newGate(t)
		c := quick()
		c.Reset, c.Order = ResetEarliest, OrderNone
		r := s.start(func(ctx context.Context, m *consumer.Message) error {
			if m.Offset == 3 {
				<-slow.open
			}
			return b.handle(ctx, m)
		}, c)
		eventually(t, "all but one are handled", func() bool { return b.len() == 9 })
		eventually(t, "what is before it is committed", func() bool { return s.committed(0) == 3 })
		old := r.table.get(place{Topic: s.topic, Partition: 0})
		r.fetchError(s.topic, 0, &kgo.ErrDataLoss{Partition: 0, ConsumedTo: 10, ConsumedToEpoch: 1, ResetTo: 5, ResetToEpoch: 2})
		eventually(t, "the partition begins anew", func() bool {
			if at := s.committed(0); at != 3 {
				t.Fatalf("committed %d while record 3 is not handled", at)
			}
			now := r.table.get(place{Topic: s.topic, Partition: 0})
			return now != nil && now != old
		})
		if now := r.table.get(place{Topic: s.topic, Partition: 0}); now.Start != 3 {
			t.Errorf("it begins at %d, want 3", now.Start)
		}
		slow.release()
		s.caughtUp()
		r.end()
		b.once(t, values)
	})
}

// The ledger must be able to archive what the broker lets through, or Run refuses: the message could never be
// acknowledged once it fails.
func TestPitfall92_ArchiveBelowTheBrokersMaximum(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	limits := ledger.DefaultLimits
	limits.Archive = 1000
	s.ledger = memory.New(memory.WithLimits(limits))
	err := s.worker(nothing, nil).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "max.message.bytes") || !strings.Contains(err.Error(), "1000") {
		t.Errorf("Run: %v", err)
	}
}

// Configurations that may not be read: refused without a window, and said in Health with one.
func TestUnreadableConfiguration(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if err := s.worker(nothing, nil).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("Run: %v", err)
	}
	c := quick()
	c.Window, c.AllowShortWindow = 24*time.Hour, true
	r := s.start(nothing, c)
	r.ready()
	if h := r.Health(); len(h.Warnings) != 2 {
		t.Errorf("warnings: %q", h.Warnings)
	}
	r.end()
}

// What lies where dead letters go may come back for as long as it is kept there.
func TestWindowCoversTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, keep := range map[string]struct {
		configs map[string]string
		window  time.Duration // beside the source's
		refused string
	}{
		"bounded":  {map[string]string{"retention.ms": "86400000", "segment.ms": "3600000"}, day + time.Hour, ""},
		"for ever": {map[string]string{"retention.ms": "-1"}, 0, "may keep messages for ever"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakeSite(t, 1)
			dead := s.topic + "-dead"
			if err := s.fake.CreateTopic(dead, 1, keep.configs); err != nil {
				t.Fatal(err)
			}
			c := s.forwarding(dead, false)
			if keep.refused != "" {
				err := s.worker(nothing, c).Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), keep.refused) || !strings.Contains(err.Error(), "AllowShortWindow") {
					t.Errorf("Run: %v, want %q", err, keep.refused)
				}
				c.Window, c.AllowShortWindow = 50*day, true
			}
			r := s.start(nothing, c)
			r.ready()
			if warnings := r.Health().Warnings; (len(warnings) > 0) != (keep.refused != "") {
				t.Errorf("warnings: %q", warnings)
			}
			r.end()
			if want := max(c.Window, 14*day+keep.window); r.set.Window != want { // 14 days: the defaults of the source
				t.Errorf("window %s, want %s", r.set.Window, want)
			}
		})
	}
	s := fakeSite(t, 1)
	r := s.start(nothing, s.forwarding(s.topic+"-nowhere", false))
	r.ready()
	if warnings := r.Health().Warnings; !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "is not known, and not part of the window") }) {
		t.Errorf("a topic that is not there: %q", warnings)
	}
	r.end()
}

// The window and what is bound to it.
func TestKeepBelowTheWindow(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	c := quick()
	c.Keep = time.Hour
	if err := s.worker(nothing, c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Config.Keep") {
		t.Errorf("Run: %v", err)
	}
}

// Commits fail for a while: nothing else stops, and they catch up.
func TestCommitsThatFailAreRepeated(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	r := s.start(nothing, nil)
	r.owns(1)
	h := s.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	s.send(0, numbers("v", 10)...)
	eventually(t, "commits fail", func() bool { return h.Hits() > 3 })
	if at := s.committed(0); at != 0 {
		t.Errorf("committed %d", at)
	}
	h.Remove()
	s.caughtUp()
	r.end()
}
