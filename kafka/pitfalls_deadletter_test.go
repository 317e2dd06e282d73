package kafka

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// forwarding is a worker's Config that forwards to a topic, which is made if it is to be there.
func (s *site) forwarding(topic string, there bool, opts ...kgo.Opt) *Config {
	s.t.Helper()
	if there {
		if _, err := s.adm.CreateTopic(s.t.Context(), 2, 1, nil, topic); err != nil {
			s.t.Fatal(err)
		}
	}
	client, err := kgo.NewClient(slices.Concat([]kgo.Opt{kgo.SeedBrokers(s.brokers...)}, opts)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	c := quick()
	c.DeadLetterTries, c.DeadLetterTimeout = 2, time.Second
	if c.DeadLetter, err = NewDeadLetterTopic(client, topic); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// dead reads n dead letters from the start of a topic.
func (s *site) dead(topic string, n int) (out []*consumer.DeadLetter) {
	s.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	for len(out) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			s.t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			d, err := ParseDeadLetter(r)
			if err != nil {
				s.t.Fatal(err)
			}
			out = append(out, d)
		}
	}
	return out
}

func bug(context.Context, *consumer.Message) error { return consumer.Terminal(errors.New("the bug")) }

// archived is how many messages the archive has, that were sent or not.
func (s *site) archived(sent bool) (n int64) {
	for d, err := range s.ledger.DeadLetters(context.Background(), ledger.Filter{}) {
		if err == nil && d.Sent == sent {
			n++
		}
	}
	return n
}

// A failed produce to the DLQ topic: the offset is not committed before the message is archived.
func TestPitfall65_FailedProduce(t *testing.T) { onBoth(t, 1, failedProduce) }

func failedProduce(s *site) {
	t := s.t
	c := s.forwarding("dead", true, kgo.RecordRetries(0))
	var refused, early atomic.Int64
	s.send(0, "bad", "bad too")
	s.fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		p := req.(*kmsg.ProduceRequest)
		resp := p.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range p.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, part := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = part.Partition, kerr.TopicAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		refused.Add(1)
		return resp, nil, true
	})
	s.fake.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range t.Partitions {
				if p.Offset > s.archived(false) {
					early.Add(1)
				}
			}
		}
		return nil, nil, false
	})
	w := s.worker(bug, c)
	r := runWorker(t, w)
	s.caughtUp()
	if refused.Load() < 2 || early.Load() > 0 {
		t.Errorf("%d produces were refused, %d commits were early", refused.Load(), early.Load())
	}
	if h := w.Health(); !h.Ready || !h.Alive {
		t.Errorf("health %+v", h)
	}
	r.end()
}

// The dead-letter topic is not there: the worker says so when it starts, and after its tries the partition goes on.
func TestPitfall108_TopicIsGone(t *testing.T) { onBoth(t, 1, topicIsGone) }

func topicIsGone(s *site) {
	t := s.t
	c := s.forwarding("not-there", false)
	good := newBook()
	s.send(0, "bad", "good")
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		if string(m.Body) == "bad" {
			return bug(ctx, m)
		}
		return good.handle(ctx, m)
	}, c)
	s.caughtUp()
	if h := r.Health(); !h.Ready || len(h.Warnings) == 0 || s.archived(false) != 1 {
		t.Errorf("health %+v, %d archived", h, s.archived(false))
	}
	good.once(t, []string{"good"})
	r.end()
}

// Tombstones and nil keys survive dead-lettering; records of one key stay in their order.
func TestPitfall64_TombstonesOnTheDeadLetterTopic(t *testing.T) {
	onBoth(t, 1, tombstonesOnTheDeadLetterTopic)
}

func tombstonesOnTheDeadLetterTopic(s *site) {
	t := s.t
	c := s.forwarding("dead", true)
	s.sendRecords(
		&kgo.Record{Topic: s.topic}, &kgo.Record{Topic: s.topic, Key: []byte("k"), Value: []byte{}},
		&kgo.Record{Topic: s.topic, Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "h"}, {Key: "h", Value: []byte{}}}},
	)
	r := s.start(bug, c)
	s.caughtUp()
	got := s.dead("dead", 3)
	slices.SortFunc(got, func(a, b *consumer.DeadLetter) int { return int(a.Message.Offset - b.Message.Offset) })
	none, empty, dup := got[0].Message, got[1].Message, got[2].Message
	if none.Key != nil || none.Body != nil || empty.Body == nil || len(empty.Body) != 0 || string(empty.Key) != "k" || dup.Body != nil {
		t.Errorf("%+v", got)
	}
	if len(dup.Headers) != 2 || dup.Headers[0].Value != nil || dup.Headers[1].Value == nil {
		t.Errorf("headers %+v", dup.Headers)
	}
	if n := s.archived(true); n != 3 {
		t.Errorf("%d archived as sent", n)
	}
	r.end()
}

// A service copies the headers of a dead letter, stamp and target group and all, onto messages of another topic: all run,
// and one that fails has a stamp of its own.
func TestPitfall84_CopiedDeadLetterHeaders(t *testing.T) { onBoth(t, 1, copiedDeadLetterHeaders) }

func copiedDeadLetterHeaders(s *site) {
	t := s.t
	c := s.forwarding("dead", true)
	stamp := consumer.NewStamp("another/topic", "topic-0-0", []byte("bad"))
	stamp.Group, stamp.Token = "another group", 9
	headers := []kgo.RecordHeader{{Key: consumer.StampName, Value: []byte(stamp.String())}, {Key: consumer.HeaderKind, Value: []byte("terminal")}, {Key: "own"}}
	s.sendRecords(&kgo.Record{Topic: s.topic, Value: []byte("bad"), Headers: headers}, &kgo.Record{Topic: s.topic, Value: []byte("bad"), Headers: headers})
	r := s.start(bug, c)
	s.caughtUp()
	got := s.dead("dead", 2)
	for _, d := range got {
		if d.Stamp == nil || d.Stamp.Source != d.Message.Source || d.Stamp.Group != s.group || d.Stamp.Token != 1 || len(d.Message.Headers) != 1 {
			t.Errorf("%+v, stamp %+v", d, d.Stamp)
		}
	}
	if got[0].Message.ID == got[1].Message.ID {
		t.Error("two messages have one identity")
	}
	r.end()
}
