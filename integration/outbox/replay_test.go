package outbox_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/outbox"
	"github.com/ackledger/ackledger/replay"
)

// TestReplayOfTheRefused: what a topic refused lies in the archive, and a replay sends it there, under the stamp that it would have had.
func TestReplayOfTheRefused(t *testing.T) {
	t.Parallel()
	brokers, topic := services.Kafka(t), services.Name(t)
	client := func(opts ...kgo.Opt) *kgo.Client {
		c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.UnknownTopicRetries(-1))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	small, large := client(kgo.ProducerBatchMaxBytes(5000)), client()
	if _, err := kadm.NewClient(large).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	l := memory.New()
	target, err := kafka.NewPublisher(small, topic)
	if err != nil {
		t.Fatal(err)
	}
	w, err := outbox.New(l, consumer.Relay{Targets: map[string]consumer.Publisher{"orders": target}, Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx, w) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("m")}, Delivery: []byte("m"),
		Fingerprint: ledger.BodyFingerprint([]byte("m")), Window: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 10_000)
	err = memory.InTx(ledger.WithAttempt(t.Context(), ledger.NewAttempt(o, claims[0].Ticket)), func(ctx context.Context) error {
		return consumer.Publish(ctx, ledger.Outgoing{Target: "orders", Key: []byte("k"), ID: "the large one", Body: body},
			ledger.Outgoing{Target: "orders", Key: []byte("k"), ID: "behind it", Body: []byte("1")})
	})
	if err != nil {
		t.Fatal(err)
	}
	mustLeave(t, l)

	dst, err := kafka.NewReplayTarget(large, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := replay.Run(t.Context(), l, replay.Archive(l), dst, replay.Config{By: ledger.By{Actor: "test", Reason: "a larger batch"}})
	if err != nil {
		t.Fatal(err)
	}
	reader := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := stamped(t, reader, 2)
	if fmt.Sprint(got) != "[behind it the large one]" {
		t.Fatalf("in the topic: %v; the replay says\n%s", got, report.Text())
	}
}

// mustLeave waits until nothing is left in the outbox.
func mustLeave(t *testing.T, l *memory.Ledger) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		list, err := l.ListOutbox(t.Context(), "", 0, 10, false)
		if err == nil && len(list) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v wait, %v", list, err)
		}
	}
}

// stamped reads n records, and returns the ids in their stamps, each of which must be of its record.
func stamped(t *testing.T, reader *kgo.Client, n int) (ids []string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); len(ids) < n && time.Now().Before(end); {
		for _, r := range reader.PollFetches(t.Context()).Records() {
			s, err := consumer.ParseStamp(r.Headers[len(r.Headers)-1].Value)
			if err != nil || s.Group != "" || string(r.Key) != "k" || !s.Counts(s.Source, ledger.BodyFingerprint(r.Value)) {
				t.Errorf("stamp %+v, %v", s, err)
				continue
			}
			ids = append(ids, s.ID)
		}
	}
	return ids
}
