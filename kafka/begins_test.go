package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asking is a worker that does not run, with clients to ask the cluster by.
func (s *site) asking(c *Config) *Worker {
	w := s.worker(nothing, c)
	w.kgo, w.adm = s.prod, s.adm
	return w
}

// silence has the cluster answer no question where partitions end, or begin.
func (s *site) silence() {
	s.fake.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		return nil, errors.New("away"), true
	})
}

func all(*assignment) bool { return true }

// What was taken away is let go of once it is committed: when the partition comes back, nobody takes it for assigned twice.
func TestWhatWasRevokedIsLetGoOf(t *testing.T) {
	t.Parallel()
	w := fakeSite(t, 1).asking(nil)
	first := newAssignment(place{Topic: "orders", Partition: 0}, topicID{}, "")
	w.table.install(first)
	w.commitAndDiscard(t.Context(), w.table.close(all), time.Minute)
	if old := w.table.install(newAssignment(place{Topic: "orders", Partition: 0}, topicID{}, "")); old != nil || !first.Gone() {
		t.Errorf("when it comes back, the table has %+v; gone: %v", old, first.Gone())
	}
}

// A batch that is passed is in hand until it is archived: its partition is not given away before.
func TestPassedBatchIsInHand(t *testing.T) {
	t.Parallel()
	w := fakeSite(t, 1).asking(nil)
	a := newAssignment(place{Topic: "orders", Partition: 0}, topicID{}, "")
	w.table.install(a)
	item := w.table.acceptBatch(a, &kgo.ErrDecompressTooLarge{Topic: "orders", Offset: 0, NextOffset: 3}, ErrLargeBatch)
	w.table.close(all)
	select {
	case <-a.empty:
		t.Error("given away before the batch is archived")
	default:
	}
	w.table.finish([]engine.Finished{{Item: item, Verdict: engine.Verdict{Ack: true}}})
	<-a.empty
	if at, _ := a.Position(); at != 3 || held(w.table, a) != [4]int64{} {
		t.Errorf("the position is %d, %d are held", at, held(w.table, a))
	}
}

// The client cannot be told to go on behind a batch while it has no offset of its own, nor where the batch is behind what was taken in:
// the partition is read again.
func TestBatchIsPassedOnceThereIsAnOffset(t *testing.T) {
	t.Parallel()
	s, c := fakeSite(t, 1), quick()
	c.LargeBatch = LargeBatchPass
	batch := &kgo.ErrDecompressTooLarge{Topic: s.topic, Offset: 0, NextOffset: 3}
	member, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.CloseAllowingRebalance)
	s.send(0, "a")
	if err := member.CommitRecords(t.Context(), member.PollRecords(t.Context(), 1).Records()...); err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]*kgo.Client{"no offset": s.prod, "behind": member} {
		w := s.asking(c)
		w.kgo = client
		a := newAssignment(place{Topic: s.topic, Partition: 0}, topicID{}, "")
		w.table.install(a)
		w.table.accept(a, []*kgo.Record{{Offset: 5}})
		w.largeBatch(batch)
		if !a.astray || !w.astray[s.topic] || a.read != 0 || w.batches != 0 || a.Span() != 1 {
			t.Errorf("%s: read again: %v, %v; read to %d, %d passed, %d taken in", name, a.astray, w.astray, a.read, w.batches, a.Span())
		}
	}
}

// Where a partition begins is where its log begins if its records are gone, or there is no commit; and Run says what it does not get to know.
func TestWhereAPartitionBegins(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	at := place{Topic: "orders", Partition: 0}
	listed := func(offset int64) kadm.ListedOffsets {
		return kadm.ListedOffsets{at.Topic: {0: {Topic: at.Topic, Offset: offset, LeaderEpoch: 4}}}
	}
	refused := kadm.ListedOffsets{at.Topic: {0: {Topic: at.Topic, Err: kerr.LeaderNotAvailable}}}
	none := kgo.NewOffset().AtStart()
	for name, c := range map[string]struct {
		start  Start
		reset  Reset
		survey survey
		offset kgo.Offset
		begins int64
		err    string
	}{
		"nothing is committed":           {survey: survey{starts: listed(7)}, offset: none, begins: 7},
		"nothing is committed, latest":   {start: StartLatest, survey: survey{starts: listed(7), ends: listed(9)}, offset: none, begins: 9},
		"its end is not listed":          {start: StartLatest, survey: survey{starts: listed(7)}, offset: none, err: "the broker does not list it"},
		"its end is refused":             {start: StartLatest, survey: survey{starts: listed(7), ends: refused}, offset: none, err: kerr.LeaderNotAvailable.Message},
		"its start is refused":           {survey: survey{starts: refused}, offset: none, err: kerr.LeaderNotAvailable.Message},
		"what is committed is gone":      {survey: survey{starts: listed(7)}, offset: kgo.NewOffset().At(3), err: ErrOutOfRange.Error()},
		"what is committed is passed by": {reset: ResetEarliest, survey: survey{starts: listed(7)}, offset: kgo.NewOffset().At(3), begins: 7},
		"what is committed is there":     {reset: ResetEarliest, survey: survey{starts: listed(7)}, offset: kgo.NewOffset().At(8), begins: 8},
	} {
		conf := quick()
		conf.Start, conf.Reset = c.start, c.reset
		epoch := int32(-1)
		if c.start == StartLatest { // of what is before the end
			epoch = 4
		}
		f, err := s.asking(conf).beginOne(t.Context(), &c.survey, at, c.offset)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
		case err != nil || f.Start != c.begins || f.Epoch != epoch:
			t.Errorf("%s: %+v, %v, want %d", name, f.assignment, err, c.begins)
		}
	}
}

// The ends of a topic are committed for a group that has committed nothing of it. One that has is at work there: a partition's end would
// be put over its position, and what lies between be lost.
func TestNewcomersLeaveWhatIsCommitted(t *testing.T) {
	t.Parallel()
	s, c := fakeSite(t, 2, kfake.SeedTopics(1, "others")), quick()
	var other kadm.Offsets // so that there is a group
	other.AddOffset("others", 0, 0, -1)
	if err := s.adm.CommitAllOffsets(t.Context(), s.group, other); err != nil {
		t.Fatal(err)
	}
	s.send(0, numbers("a", 5)...)
	s.send(1, numbers("b", 3)...)
	c.Start = StartLatest
	w := s.asking(c)
	look := func(ctx context.Context) (*survey, error) {
		v := &survey{known: map[string]bool{}, metas: map[string]topicMeta{}}
		return v, w.newcomers(ctx, v, []string{s.topic})
	}
	v, err := look(t.Context())
	if err != nil || len(v.others) != 2 {
		t.Fatalf("a new group: %+v, %v", v.others, err)
	}
	for _, p := range v.others {
		if want := map[int32]int64{0: 5, 1: 3}[p.Partition]; p.offset != want || p.epoch < 0 {
			t.Errorf("partition %d: its end is %d, of epoch %d, want %d", p.Partition, p.offset, p.epoch, want)
		}
	}
	s.setOffset(0, 2)
	if v, err = look(t.Context()); err != nil || len(v.others) != 0 || s.committed(0) != 2 {
		t.Errorf("a group that is at work: %+v, %v", v.others, err)
	}
	s.silence()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err = look(short); err == nil || !strings.Contains(err.Error(), "where the topics end") {
		t.Errorf("without an answer: %v", err)
	}
}

// A topic that is not there is named, before anything is asked about its partitions.
func TestSurveyNamesTheTopic(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	_, err := s.asking(nil).survey(t.Context(), map[string]map[int32]kgo.Offset{"nowhere": {0: kgo.NewOffset()}})
	if !errors.Is(err, kerr.UnknownTopicOrPartition) || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("%v", err)
	}
}

// Where a topic ends is not known if no broker says it: that is an error, no topic without ends.
func TestExtentWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 2)
	s.send(1, "a")
	if x, err := extentOf(t.Context(), s.prod, s.topic); err != nil || len(x.ends) != 2 || x.ends[0].offset != 0 || x.ends[1].offset != 1 {
		t.Fatalf("%+v, %v", x, err)
	}
	s.silence()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if x, err := extentOf(short, s.prod, s.topic); err == nil || !strings.Contains(err.Error(), s.topic) {
		t.Errorf("%+v, %v", x, err)
	}
}
