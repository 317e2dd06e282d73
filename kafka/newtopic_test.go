package kafka

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// forgetful lets the cluster answer the first n questions for the configurations of topics with an error. It returns how many it
// answered so.
func (s *site) forgetful(n int64, answer *kerr.Error) *atomic.Int64 {
	asked := new(atomic.Int64)
	s.fake.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		if asked.Load() >= n {
			return nil, nil, false
		}
		asked.Add(1)
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
			answered := kmsg.NewDescribeConfigsResponseResource()
			answered.ResourceType, answered.ResourceName, answered.ErrorCode = r.ResourceType, r.ResourceName, answer.Code
			resp.Resources = append(resp.Resources, answered)
		}
		return resp, nil, true
	})
	return asked
}

// A worker was started right after its topic was created. One broker knew the topic, and the one that was asked for its
// configuration did not yet: Run ended, and told people to set Config.Window.
func TestPitfall142_TopicJustCreated(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]*kerr.Error{
		"unknown": kerr.UnknownTopicOrPartition, "busy": kerr.NotController, "slow": kerr.RequestTimedOut, "confused": kerr.UnknownServerError,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakeSite(t, 1)
			asked := s.forgetful(3, answer)
			s.send(0, "v")
			b := newBook()
			r := s.start(b.handle, nil)
			s.caughtUp()
			r.end()
			b.once(t, []string{"v"})
			if asked.Load() != 3 {
				t.Errorf("asked %d times before the brokers knew, want 3", asked.Load())
			}
		})
	}
}

// A topic that nobody gets to know is named in Health meanwhile, and at last ends Run as such.
func TestPitfall142_TopicNeverKnown(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.forgetful(1<<40, kerr.UnknownTopicOrPartition)
	r := s.start(nothing, nil)
	eventually(t, "Health says what is asked again", func() bool {
		return strings.Contains(r.Health().LastError, s.topic) && strings.Contains(r.Health().LastError, "configuration")
	})
	if err := r.wait(); !errors.Is(err, kerr.UnknownTopicOrPartition) || !strings.Contains(err.Error(), s.topic) {
		t.Errorf("Run: %v", err)
	}
}

// A topic was created anew under a worker. Until the worker had learned of that, it read on, or began, at an offset of the old
// topic, which the new one does not have: Run ended, as if retention had removed records.
func TestPitfall142_OffsetOfTheOldTopic(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		b := newBook()
		w := s.worker(b.handle, nil)
		w.watch = watchInterval // so that the worker does not learn of it by chance
		r := runWorker(t, w)
		old := numbers("old ", 100)
		s.send(0, old...)
		eventually(t, "the old topic is handled", func() bool { return b.len() == len(old) })
		s.caughtUp()
		was := s.id()
		var anew atomic.Bool
		s.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			s.fake.KeepControl()
			f := req.(*kmsg.FetchRequest)
			if !slices.ContainsFunc(f.Topics, func(t kmsg.FetchRequestTopic) bool { return topicID(t.TopicID) == was }) {
				return nil, nil, false
			}
			p := kmsg.NewFetchResponseTopicPartition() // nothing new
			if anew.Load() {
				p.ErrorCode = kerr.OffsetOutOfRange.Code
			}
			resp := f.ResponseKind().(*kmsg.FetchResponse)
			resp.Topics = []kmsg.FetchResponseTopic{{TopicID: was, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
			return resp, nil, true
		})
		s.recreate()
		anew.Store(true)
		fresh := numbers("new ", 10)
		s.send(0, fresh...)
		eventually(t, "the new topic is handled", func() bool { return b.len() == len(old)+len(fresh) })
		s.caughtUp()
		r.end()
		b.once(t, append(old, fresh...))
	})
}
