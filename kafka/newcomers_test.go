package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// heldAnswer keeps a member from its third OffsetFetch answer: that of all the group's offsets, for which newcomers ask. Its first
// is that of the look at the start, its second that of its partitions.
type heldAnswer struct {
	n     atomic.Int32
	there chan struct{}
	goOn  *gate
}

func (h *heldAnswer) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.OffsetFetch) && h.n.Add(1) == 3 {
		close(h.there)
		<-h.goOn.open
	}
}

// beginTogether makes two members begin in one generation, the second, as Kafka's group.initial.rebalance.delay.ms does: the
// first commits nothing in a generation of its own (refused says that it has tried), and then not before seen is closed (nil: at once).
func (s *site) beginTogether(seen <-chan struct{}) (refused <-chan struct{}) {
	tried := make(chan struct{})
	var once sync.Once
	var waited atomic.Bool
	s.fake.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		r := req.(*kmsg.OffsetCommitRequest)
		if r.Generation > 1 {
			if seen != nil && waited.CompareAndSwap(false, true) {
				s.fake.SleepControl(func() { <-seen })
			}
			return nil, nil, false
		}
		once.Do(func() { close(tried) })
		resp := r.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, rt := range r.Topics {
			at := kmsg.NewOffsetCommitResponseTopic()
			at.Topic, at.TopicID = rt.Topic, rt.TopicID
			for _, p := range rt.Partitions {
				ap := kmsg.NewOffsetCommitResponseTopicPartition()
				ap.Partition, ap.ErrorCode = p.Partition, kerr.RebalanceInProgress.Code
				at.Partitions = append(at.Partitions, ap)
			}
			resp.Topics = append(resp.Topics, at)
		}
		return resp, nil, true
	})
	return tried
}

// Two members of a new group begin at the end of the log, in one generation. Both commit the ends of all partitions, and the
// second, slow between its look and its commit, saw the first one's partition further on: its commit came after that of the
// position, which the first did not repeat because it had not moved since. The record in the first one's hands was lost with a
// clean stop.
func TestTwoNewcomersAtLatest(t *testing.T) {
	for name, before := range map[string][]string{"at the start": nil, "after the first record": {"done"}} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, audit Audit) { twoNewcomers(fakeSite(t, 2).with(audit), before) })
		})
	}
}

func twoNewcomers(s *site, before []string) {
	t := s.t
	s.send(0, numbers("past0-", 5)...)
	s.send(1, numbers("past1-", 5)...)
	h := &heldAnswer{there: make(chan struct{}), goOn: newGate(t)}
	refused := s.beginTogether(h.there)
	c := quick()
	c.Start, c.Drain, c.Order = StartLatest, 100*time.Millisecond, OrderPartition
	b := newBook()
	began := make(chan struct{}, 1)
	held := func(ctx context.Context, m *consumer.Message) error {
		if string(m.Body) != "held" {
			return b.handle(ctx, m)
		}
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	eager := kgo.Balancers(kgo.RangeBalancer())
	first := s.start(held, c, eager)
	<-refused
	second := s.start(held, c, eager, kgo.WithHooks(h))
	<-h.there
	first.owns(1)
	p := s.movedTo(first)
	s.send(p, append(before, "held")...)
	<-began
	at := int64(5 + len(before))
	eventually(t, "the position of the first is committed", func() bool { return s.committed(p) == at })
	h.goOn.release()
	second.owns(1) // it has committed
	eventually(t, "the position is committed again", func() bool { return s.committed(p) == at })
	for _, r := range []*running{first, second} {
		r.stop()
		_ = r.wait() // the handler was cut short
	}
	third := s.start(b.handle, c)
	eventually(t, "what was in the hands of the first is handled", func() bool { return b.len() == len(before)+1 })
	third.end()
	b.once(t, append(before, "held"))
}
