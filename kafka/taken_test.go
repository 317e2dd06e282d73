package kafka

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// holding is a worker that does not run, whose engine does not start what it is given: a record of partition 0 is in its hands.
func (s *site) holding() (*Worker, *assignment) {
	s.t.Helper()
	w := s.asking(nil)
	eng, err := engine.New(engine.Config{Options: w.set.Options, Ledger: w.ledger, Handler: w.handler, Sink: w, System: "kafka", Source: "source"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = eng.Close(context.Background()) })
	w.eng = eng
	a := newAssignment(place{Topic: s.topic, Partition: 0}, topicID{}, "log")
	w.table.install(a)
	w.eng.Offer([]*engine.Item{w.table.acceptBatch(a, &kgo.ErrDecompressTooLarge{Topic: s.topic, NextOffset: 3}, ErrLargeBatch)})
	return w, a
}

// soon fails if f is not over within ten seconds.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("not within 10 s: %s", what)
	}
}

// What has not begun is given back at once when the group takes a partition: the next owner waits for handlers alone.
func TestRevokedRecordsAreGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	w, a := s.holding()
	w.set.RevokeDrain = time.Minute
	w.given[a.TopicPartition] = true
	soon(t, "the partition is given away", func() { w.revoked(t.Context(), s.prod, map[string][]int32{s.topic: {0}}) })
	if !a.Gone() || held(w.table, a) != [4]int64{} || len(w.given) != 0 {
		t.Errorf("gone %v, %d held, given %v", a.Gone(), held(w.table, a), w.given)
	}
}

// A partition that was lost is not ours, and nothing of it is read or committed.
func TestLostPartitionsAreNotOurs(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	w, a := s.holding()
	w.given[a.TopicPartition], w.joined = true, true
	w.lost(t.Context(), s.prod, map[string][]int32{s.topic: {0}})
	offsets := map[string]map[int32]kgo.Offset{s.topic: {0: kgo.NewOffset()}}
	if got, err := w.adjust(t.Context(), offsets); err != nil || len(got) != 0 {
		t.Errorf("it would be read: %v, %v", got, err)
	}
	if !a.Gone() || w.joined {
		t.Errorf("gone %v, joined %v", a.Gone(), w.joined)
	}
}

// Before a topic is joined afresh what was in hand of its former life is let go of: a commit of it would be one of the new life.
func TestRestartLetsGoFirst(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	w, a := s.holding()
	v := &watcher{Worker: w, ids: map[string]topicID{}, begun: map[string]time.Time{}}
	v.restart(t.Context(), s.topic, topicID{1}, topicID{2})
	if !a.Gone() || !w.reborn[s.topic] || w.table.get(a.TopicPartition) != nil {
		t.Errorf("gone %v, created anew: %v", a.Gone(), w.reborn)
	}
}

// An assignment that is let go of while its log's loss is dealt with is not begun anew: its commit would be one of the topic's new life.
func TestLossBeginsNothingAnewThatWasLetGoOf(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	w, a := s.holding()
	w.set.Reset = ResetEarliest
	w.table.discard(w.table.close(all))
	if now := w.dataLoss(a, 0, 0, errors.New("lost")); now != nil || w.table.get(a.TopicPartition) != nil {
		t.Errorf("it goes on with %+v", now)
	}
}

// A partition that is assigned twice is let go of the first time, and whoever waits for what was in hand of it goes on.
func TestReplacedAssignmentCloses(t *testing.T) {
	t.Parallel()
	w := fakeSite(t, 1).asking(nil)
	first := newAssignment(place{Topic: "orders", Partition: 0}, topicID{}, "")
	w.table.install(first)
	if old := w.table.install(newAssignment(first.TopicPartition, topicID{}, "")); old != first || !first.Closed() || !first.Gone() {
		t.Errorf("%v is let go of; closing %v, gone %v", old, first.Closed(), first.Gone())
	}
	soon(t, "nothing is in hand of it", func() { <-first.empty })
}

// A topic of which records were thrown away is looked at now, not at the next round.
func TestTopicIsJoinedAfreshNow(t *testing.T) {
	t.Parallel()
	w := fakeSite(t, 1).asking(nil)
	w.joinAfresh("orders")
	select {
	case topic := <-w.poke:
		if topic != "orders" || !w.isAstray("orders") {
			t.Errorf("%q is looked at; astray %v", topic, w.astray)
		}
	default:
		t.Error("nobody is told")
	}
}

// How large records are is known from stretches, too: it bounds what the next poll asks for.
func TestStretchesCountForTheMeanSize(t *testing.T) {
	t.Parallel()
	w, a := fakeSite(t, 1).holding()
	b := &batch{set: &w.set, of: a, bytes: 3000, sizes: make([]int64, 3), records: []*kgo.Record{{}, {Offset: 1}, {Offset: 2}}}
	var size meanSize
	w.offer([]offer{{stretch: &engine.Stretch{Records: b, Claim: ledger.Stretch{First: ledger.Entry{Key: ledger.Key{Pos: &ledger.Position{Log: "log"}}}}}}}, 0, &size)
	if size.bytes != 1000 {
		t.Errorf("a record has %v bytes, want 1000", size.bytes)
	}
}

// Finished messages are kept for as long as the broker may bring them again, or longer if that is asked for.
func TestKeepFollowsTheWindow(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for given, want := range map[time.Duration]time.Duration{0: 100 * day, 200 * day: 200 * day} {
		w := fakeSite(t, 1).asking(nil)
		w.set.givenKeep, w.set.Keep = given, max(given, consumer.DefaultKeep)
		if err := w.adoptWindow(100 * day); err != nil || w.set.Keep != want || w.set.Window != 100*day {
			t.Errorf("given %s: keeps for %s, window %s, %v", given, w.set.Keep, w.set.Window, err)
		}
	}
}

// Records of a topic that is kept in ranges go through the engine together, once a handler has shown that it is fast.
func TestRangesAreStretched(t *testing.T) {
	t.Parallel()
	for name, audit := range audits {
		s, b := fakeSite(t, 1).with(audit), newBook()
		r := s.start(b.handle, nil)
		s.send(0, "a")
		s.caughtUp()
		if got := r.batchOf(&assignment{}, []*kgo.Record{{}, {Offset: 1}}) != nil; got != (audit == AuditRanges) {
			t.Errorf("%s: %v", name, got)
		}
		r.end()
	}
}

// The configuration of a topic that the brokers do not answer for is an error, and not one of a topic that says nothing.
func TestConfigurationThatIsRefused(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	s.fake.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
			rr := kmsg.NewDescribeConfigsResponseResource()
			rr.ResourceType, rr.ResourceName, rr.ErrorCode = r.ResourceType, r.ResourceName, kerr.InvalidConfig.Code
			resp.Resources = append(resp.Resources, rr)
		}
		return resp, nil, true
	})
	found, err := describe(t.Context(), s.adm, s.topic)
	if err != nil || !errors.Is(found[s.topic].err, kerr.InvalidConfig) {
		t.Errorf("%+v, %v", found, err)
	}
}

// A dead-letter topic that is not there has no address, whatever else the cluster has.
func TestDeadLetterTopicThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	for topic, want := range map[string]error{s.topic: nil, "nowhere": kerr.UnknownTopicOrPartition} {
		d, err := NewDeadLetterTopic(s.prod, topic)
		if err != nil {
			t.Fatal(err)
		}
		if address, err := d.Source(t.Context()); !errors.Is(err, want) || (address == "") != (want != nil) {
			t.Errorf("%s: %q, %v", topic, address, err)
		}
	}
}

// A dead letter that is too large because of its error's text is published without that; one that is too large by itself is
// refused for good.
func TestLargeDeadLetters(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	const most = 4 << 10
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ProducerBatchMaxBytes(most), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	d, err := NewDeadLetterTopic(client, s.topic)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body, text int
		terminal   bool
	}{"small": {10, 10, false}, "a large error": {10, most, false}, "a large body": {most, 10, true}} {
		letter := &consumer.DeadLetter{Message: consumer.Message{Source: "source", Body: make([]byte, c.body)}, Error: strings.Repeat("e", c.text)}
		if err := d.Publish(t.Context(), letter); consumer.IsTerminal(err) != c.terminal || !c.terminal && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if end := s.ends()[0].Offset; end != 2 {
		t.Errorf("%d were published, want 2", end)
	}
}

// The messages of a FIFO group without a key stay in one partition; a key of its own stays a message's key.
func TestKeyOfADeadLetter(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]consumer.Message{"group": {Group: "group"}, "key": {Group: "group", Key: []byte("key")}, "": {}} {
		if r := newDeadRecord("dead", &consumer.DeadLetter{Message: m}); string(r.Key) != want || (r.Key == nil) != (want == "") {
			t.Errorf("%+v: the record's key is %q", m, r.Key)
		}
	}
}

// The longest id that the ledger takes is that of a dead letter; a longer one is none of ours.
func TestDeadLetterOfTheLongestID(t *testing.T) {
	t.Parallel()
	for n, counts := range map[int]bool{ledger.MaxID: true, ledger.MaxID + 1: false} {
		stamp := consumer.NewStamp("source", strings.Repeat("x", n), []byte("body"))
		r := &kgo.Record{Value: []byte("body"), Headers: []kgo.RecordHeader{stampHeader(&stamp), {Key: consumer.HeaderOriginalSource, Value: []byte("source")}}}
		if l := newLetter(r); (l.Stamp != nil) != counts {
			t.Errorf("an id of %d bytes: %+v, %v", n, l.Stamp, l.Unreadable)
		}
	}
}

// closes counts clients.
type closes struct{ made, closed atomic.Int64 }

func (c *closes) OnNewClient(*kgo.Client)    { c.made.Add(1) }
func (c *closes) OnClientClosed(*kgo.Client) { c.closed.Add(1) }

// A source says how many letters it has, reads all of them, and leaves no client behind, also of a run that stops early.
func TestReplaySourceCountsAndCloses(t *testing.T) {
	t.Parallel()
	s, c := fakeSite(t, 2), &closes{}
	s.send(0, "a", "b")
	s.send(1, "c")
	src, err := NewReplaySource([]kgo.Opt{kgo.SeedBrokers(s.brokers...), kgo.WithHooks(c)}, s.topic)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := src.Count(t.Context(), &ledger.Filter{}); err != nil || n != 3 {
		t.Errorf("%d letters, %v", n, err)
	}
	for _, err := range src.Letters(t.Context(), &ledger.Filter{}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if made, closed := c.made.Load(), c.closed.Load(); made == 0 || made != closed {
		t.Errorf("%d clients, %d were closed", made, closed)
	}
}

// Groups that cannot be listed are not taken for none.
func TestGroupsThatAreNotListed(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := readersOf(ended, kadm.NewClient(fakeSite(t, 1).prod)); err == nil {
		t.Errorf("%v", found)
	}
}
