package kafka

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// answered is a cluster that answers each request so.
type answered func(kmsg.Request) (kmsg.Response, error)

func (a answered) Request(_ context.Context, req kmsg.Request) (kmsg.Response, error) { return a(req) }

// A topic of which the answer says nothing is not there: its id is not that of a topic without one.
func TestTopicThatIsNotAnsweredFor(t *testing.T) {
	t.Parallel()
	w := fakeSite(t, 1).asking(nil)
	_, metas, err := w.metadata(t.Context(), answered(func(req kmsg.Request) (kmsg.Response, error) { return req.ResponseKind(), nil }), []string{"orders"})
	if err != nil || !errors.Is(metas["orders"].err, kerr.UnknownTopicOrPartition) {
		t.Errorf("%+v, %v", metas, err)
	}
}

// What the brokers say of a topic ends Run if it cannot heal, and is in Health if it can.
func TestTroubleWithATopicIsReported(t *testing.T) {
	t.Parallel()
	for answer, ends := range map[*kerr.Error]bool{
		kerr.TopicAuthorizationFailed: true, kerr.LeaderNotAvailable: false, kerr.UnknownTopicOrPartition: false, nil: false,
	} {
		s := fakeSite(t, 1)
		s.fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic = kmsg.StringPtr(s.topic)
			if answer == nil {
				return nil, nil, false
			}
			topic.ErrorCode = answer.Code
			resp.Topics = append(resp.Topics, topic)
			return resp, nil, true
		})
		w := s.asking(nil)
		var ended error
		w.stop = func(err error) { ended = err }
		(&watcher{Worker: w, ids: map[string]topicID{}, begun: map[string]time.Time{}}).look(t.Context(), "")
		switch want := error(answer); {
		case answer == nil:
			if ended != nil || w.trouble[withCluster] != nil {
				t.Errorf("without trouble: %v, %v", ended, w.trouble)
			}
		case ends && !errors.Is(ended, want), !ends && (ended != nil || !errors.Is(w.trouble[withCluster], want)):
			t.Errorf("%v: ended with %v, trouble %v", answer, ended, w.trouble)
		}
	}
}

// A commit of another ledger that comes later ends Run; and what was wrong with the cluster is well again after a look without trouble.
func TestLookFindsAnotherLedgerLater(t *testing.T) {
	t.Parallel()
	s, c := fakeSite(t, 1), quick()
	c.Start = StartLatest
	w := s.asking(c)
	w.ours, w.set.topics = "mine", []string{s.topic}
	var ended error
	w.stop = func(err error) { ended = err }
	v := &watcher{Worker: w, ids: map[string]topicID{}, begun: map[string]time.Time{}}
	w.note(withCluster, errors.New("away"))
	s.commitAs(0, 0, noteIn("mine", "", topicID{1}))
	if v.look(t.Context(), ""); w.trouble[withCluster] != nil || ended != nil {
		t.Errorf("after a look without trouble: %v, ended with %v", w.trouble, ended)
	}
	s.commitAs(0, 0, noteIn("theirs", "", topicID{1}))
	if v.look(t.Context(), ""); !errors.Is(ended, ErrOtherLedger) {
		t.Errorf("with a commit of another ledger: ended with %v, trouble %v", ended, w.trouble)
	}
}

// Configurations that no broker describes are an error that heals: they are not those of a topic without any.
func TestConfigurationsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.fake.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		return nil, errors.New("away"), true
	})
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if found, err := describe(short, s.adm, s.topic); err == nil || !strings.Contains(err.Error(), "configurations") {
		t.Errorf("%+v, %v", found, err)
	}
}

// A static member of the new protocol that stops says that it is gone for now, and by its instance id: the next one gets its
// partitions at once.
func TestStaticMemberLeavesForNow(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	var got *kmsg.ConsumerGroupHeartbeatRequest
	s.fake.ControlKey(int16(kmsg.ConsumerGroupHeartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		got = req.(*kmsg.ConsumerGroupHeartbeatRequest)
		return req.ResponseKind(), nil, true
	})
	w := s.asking(nil)
	w.set.instance = "one"
	if err := w.leaveStatic(t.Context(), "member"); err != nil {
		t.Fatal(err)
	}
	if got.Group != s.group || got.MemberID != "member" || got.InstanceID == nil || *got.InstanceID != "one" || got.MemberEpoch != -2 {
		t.Errorf("%+v", got)
	}
}

// The client's warnings and errors are logged, with what they name, and nothing below them, nor what every first start has.
func TestClientsWarningsAreLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	l := clientLog{zap.New(core)}
	if l.Level() != kgo.LogLevelWarn {
		t.Errorf("the client logs from %v on", l.Level())
	}
	l.Log(kgo.LogLevelWarn, "received an OffsetCommitResponse after our group session has ended, unable to handle this (were we kicked from the group?)")
	l.Log(kgo.LogLevelWarn, "slow", "broker", 1)
	l.Log(kgo.LogLevelError, "broken", "broker", 2)
	all := logs.All()
	if len(all) != 2 || all[0].Level != zap.WarnLevel || all[1].Level != zap.ErrorLevel || all[1].ContextMap()["broker"] != int64(2) {
		t.Errorf("%+v", all)
	}
}

// What a batch of records took is free once the engine has let go of it, a part at a time: for its partition, and for all.
func TestBatchesGiveTheirRoomBack(t *testing.T) {
	t.Parallel()
	w := fakeSite(t, 1).asking(nil)
	a := newAssignment(place{Topic: "orders", Partition: 0}, topicID{}, "")
	w.table.install(a)
	b := &batch{of: a, sizes: []int64{5, 6, 7}, bytes: 18, records: []*kgo.Record{{}, {Offset: 1}, {Offset: 2}}}
	if _, ok := w.table.acceptAll(a, b); !ok || held(w.table, a) != [4]int64{3, b.bytes, 3, b.bytes} {
		t.Fatalf("taken in: %v, held %d, want %d bytes", ok, held(w.table, a), b.bytes)
	}
	st := &engine.Stretch{Records: b}
	w.table.finish([]engine.Finished{{Stretch: st, N: 3, Verdict: engine.Verdict{Ack: true}}})
	if at, _ := a.Position(); at != 3 || held(w.table, a) != [4]int64{} {
		t.Errorf("position %d, held %d", at, held(w.table, a))
	}
}

// held is how many records and bytes an assignment has in hand, and all of them.
func held(t *table, a *assignment) [4]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	records, bytes := a.Held()
	all, allBytes := t.core.Held()
	return [4]int64{int64(records), bytes, int64(all), allBytes}
}

// What was finished since the last interval is committed as the worker ends, also by a static member, which keeps its partitions.
func TestLastCommit(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]kgo.Opt{"a member": nil, "a static member": {kgo.InstanceID("one")}} {
		s, c, b := fakeSite(t, 1), quick(), newBook()
		c.CommitInterval = time.Minute
		r := s.start(b.handle, c, opts...)
		r.owns(1)
		s.send(0, numbers("a", 5)...)
		eventually(t, "all are handled", func() bool { return b.len() == 5 })
		if r.end(); s.committed(0) != 5 {
			t.Errorf("%s: %d is committed at the end, want 5", name, s.committed(0))
		}
	}
}

// A worker is not ready before its group has taken it in.
func TestNotReadyBeforeTheGroup(t *testing.T) {
	t.Parallel()
	s, asked, in := fakeSite(t, 1), make(chan struct{}), newGate(t)
	var once sync.Once
	s.fake.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() { close(asked) })
		s.fake.SleepControl(func() { <-in.open })
		return nil, nil, false
	})
	r := s.start(nothing, nil)
	<-asked
	eventually(t, "the engine is ready", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.eng != nil && r.eng.Health().Ready
	})
	if r.Health().Ready {
		t.Error("ready before the group has taken it in")
	}
	in.release()
	r.ready()
	r.end()
}
