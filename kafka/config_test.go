package kafka

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func callback(context.Context, *kgo.Client, map[string][]int32) {}

func good() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("b", "a")}
}

var nothing = consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })

// What would break a promise is refused by its name.
func TestRefusesOptionsByName(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]kgo.Opt{
		"AutoCommitMarks":    kgo.AutoCommitMarks(),
		"GreedyAutoCommit":   kgo.GreedyAutoCommit(),
		"AutoCommitInterval": kgo.AutoCommitInterval(time.Minute),
		"AutoCommitCallback": kgo.AutoCommitCallback(func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {}),

		"OnPartitionsAssigned":        kgo.OnPartitionsAssigned(callback),
		"OnPartitionsRevoked":         kgo.OnPartitionsRevoked(callback),
		"OnPartitionsLost":            kgo.OnPartitionsLost(callback),
		"OnPartitionsCallbackBlocked": kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) {}),
		"OnOffsetsFetched":            kgo.OnOffsetsFetched(func(context.Context, *kgo.Client, *kmsg.OffsetFetchResponse) error { return nil }),
		"AdjustFetchOffsetsFn": kgo.AdjustFetchOffsetsFn(func(_ context.Context, m map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return m, nil
		}),
		"ConsumePartitions":  kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"a": {0: kgo.NewOffset()}}),
		"ConsumeRegex":       kgo.ConsumeRegex(),
		"ConsumeStartOffset": kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()),
		"ConsumeResetOffset": kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		"ShareGroup":         kgo.ShareGroup("s"),
		"GroupProtocol":      kgo.GroupProtocol("mine"),
		"ConsumerGroup":      kgo.ConsumerGroup(""),
		"ConsumeTopics":      kgo.ConsumeTopics(),
		"RebalanceTimeout":   kgo.RebalanceTimeout(5 * time.Second),
	} {
		_, err := NewWorker(append(good(), opt), memory.New(), nothing, nil)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAcceptsTheCallersOptions(t *testing.T) {
	t.Parallel()
	w, err := NewWorker(append(good(), kgo.InstanceID("i"), kgo.ServerSideBalancer(), kgo.ClientID("c"),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.RebalanceTimeout(2*time.Minute), kgo.SessionTimeout(10*time.Second),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchIsolationLevel(kgo.ReadUncommitted())),
		memory.New(), nothing, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.set.group != "g" || strings.Join(w.set.topics, " ") != "a b" || w.set.Name != "g" || w.set.rebalance != 2*time.Minute {
		t.Errorf("group %q, topics %v, name %q, rebalance timeout %s", w.set.group, w.set.topics, w.set.Name, w.set.rebalance)
	}
	if w.set.Span != DefaultSpan || w.set.CommitInterval != DefaultCommitInterval || w.set.RevokeDrain != DefaultRevokeDrain {
		t.Errorf("defaults: %+v", w.set.Config)
	}
}

// franz-go's own default is raised: a member that drains must not be put out of the group.
func TestRaisesTheRebalanceTimeoutAboveTheDrain(t *testing.T) {
	t.Parallel()
	w, err := NewWorker(good(), memory.New(), nothing, &Config{RevokeDrain: 3 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if want := 3*time.Minute + rebalanceMargin; w.set.rebalance != want {
		t.Errorf("rebalance timeout %s, want %s", w.set.rebalance, want)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]*Config{
		"Config.Name":           {Options: consumer.Options{Name: "other"}},
		"Config.Order":          {Order: 9},
		"Config.Start":          {Start: 9},
		"Config.Reset":          {Reset: 9},
		"Config.Audit":          {Audit: 9},
		"Config.Span":           {Span: -1},
		"Config.CommitInterval": {CommitInterval: time.Hour},
		"Config.RevokeDrain":    {RevokeDrain: -time.Second},
		"Options.Concurrency":   {Options: consumer.Options{Concurrency: -1}},
	} {
		_, err := NewWorker(good(), memory.New(), nothing, c)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "kafka: ") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := NewWorker(good(), nil, nothing, nil); err == nil {
		t.Error("a nil ledger was accepted")
	}
	if _, err := NewWorker(good(), memory.New(), nil, nil); err == nil {
		t.Error("a nil handler was accepted")
	}
	if _, err := NewWorker(good(), (*memory.Ledger)(nil), nothing, nil); err == nil {
		t.Error("a nil pointer as the ledger was accepted")
	}
	if _, err := NewWorker(good(), memory.New(), consumer.HandlerFunc(nil), nil); err == nil {
		t.Error("a nil function as the handler was accepted")
	}
	for _, o := range []kgo.Opt{kgo.SeedBrokers(""), kgo.SeedBrokers("a:9092,b:9092"), kgo.ConsumeTopics("a b/c"), kgo.ConsumeTopics(strings.Repeat("t", 250))} {
		if _, err := NewWorker(append(good(), o), memory.New(), nothing, nil); err == nil || !strings.Contains(err.Error(), "kafka: kgo.") {
			t.Errorf("no broker, or a topic's name that Kafka refuses: %v", err)
		}
	}
	if _, err := NewWorker(append(good(), nil), memory.New(), nothing, nil); err == nil || !strings.Contains(err.Error(), "option 4 of 4 is nil") {
		t.Errorf("a nil option: %v", err)
	}
	if _, err := NewWorker([]kgo.Opt{kgo.SeedBrokers("a b c:::")}, memory.New(), nothing, nil); err == nil {
		t.Error("a seed broker that is none was accepted")
	}
}

func TestWhereToBegin(t *testing.T) {
	t.Parallel()
	now, old, none := topicID{1}, topicID{2}, topicID{}
	for _, c := range []struct {
		story     string
		committed int64
		note      string
		id        topicID
		known     bool
		want      begin
	}{
		{"a new group", -1, "", now, false, atStartOption},
		{"a partition that was added", -1, "", now, true, atLogStart},
		{"our commit", 7, noteOf("here", now), now, true, atCommit},
		{"our commit with the ledger's id", 7, noteIn("ledger", "here", now), now, true, atCommit},
		{"such a one for the topic of before", 7, noteIn("ledger", "here", old), now, true, atLogStart},
		{"such a one that was copied from another cluster", 7, noteIn("ledger", "there", old), now, true, atCommit},
		{"our commit at 0", 0, noteOf("here", now), now, true, atCommit},
		{"our commit for the topic of before", 7, noteOf("here", old), now, true, atLogStart},
		{"a commit that was copied from another cluster", 7, noteOf("there", old), now, true, atCommit},
		{"an operator's commit", 7, "", now, true, atCommit},
		{"another consumer's commit", 7, "consumer-1-2f0c", now, false, atCommit},
		{"by name, our commit", 7, noteOf("here", none), none, true, atCommit},
		{"by name, after a time by id", 7, noteOf("here", now), none, true, atCommit},
		{"by id, after a time by name", 7, noteOf("here", none), now, true, atCommit},
	} {
		if got := whereToBegin(c.committed, c.note, "here", c.id, c.known); got != c.want {
			t.Errorf("%s: %d, want %d", c.story, got, c.want)
		}
	}
}

func TestWindowFollowsTheTopic(t *testing.T) {
	t.Parallel()
	config := func(values map[string]string) limits {
		return limitsOf(func(k string) (string, bool) { v, ok := values[k]; return v, ok })
	}
	bounded := map[string]string{"cleanup.policy": "delete", "retention.ms": "3600000", "segment.ms": "60000", "max.message.bytes": "1048588"}
	with := func(k, v string) map[string]string {
		m := map[string]string{}
		for name, value := range bounded {
			m[name] = value
		}
		if m[k] = v; v == "" {
			delete(m, k)
		}
		return m
	}
	if l := config(bounded); l.window != time.Hour+time.Minute || l.maxBytes != 1048588 {
		t.Errorf("bounded: %+v", l)
	}
	for name, values := range map[string]map[string]string{
		"compacted": with("cleanup.policy", "compact"), "both": with("cleanup.policy", "compact,delete"),
		"unbounded": with("retention.ms", "-1"), "unreadable": {}, "no segment.ms": with("segment.ms", ""),
		"absurd": with("retention.ms", "9223372036854775807"), "not a number": with("retention.ms", "x"),
	} {
		l := config(values)
		if l.window != 0 || l.unknown == "" {
			t.Errorf("%s: %+v", name, l)
		}
		s := settings{}
		if _, _, err := s.windowFor("t", l); err == nil || !strings.Contains(err.Error(), "Config.Window") {
			t.Errorf("%s without a window: %v", name, err)
		}
		s.Window = time.Hour
		if _, _, err := s.windowFor("t", l); err == nil || !strings.Contains(err.Error(), "AllowShortWindow") {
			t.Errorf("%s with a window: %v", name, err)
		}
		s.AllowShortWindow = true
		if w, warning, err := s.windowFor("t", l); w != time.Hour || warning == "" || err != nil {
			t.Errorf("%s, allowed: %s, %q, %v", name, w, warning, err)
		}
	}
	s := settings{}
	s.Window = time.Minute
	if _, _, err := s.windowFor("t", config(bounded)); err == nil || !strings.Contains(err.Error(), "1h1m0s") {
		t.Errorf("a window below the retention: %v", err)
	}
	s.Window = 2 * time.Hour
	if w, warning, err := s.windowFor("t", config(bounded)); w != 2*time.Hour || warning != "" || err != nil {
		t.Errorf("a longer window: %s, %q, %v", w, warning, err)
	}
}

// No two groups, clusters, topics, partitions meet, whatever is in the cluster's id.
func TestNamesAreUnambiguous(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, cluster := range []string{"c", "c/t", "c%2Ft", ""} {
		for _, topic := range []string{"t", "t-1", "u"} {
			for _, group := range []string{"g", "t/g", "c/t/g"} {
				s, err := newTopicSource(group, cluster, topic)
				if err != nil {
					t.Fatal(err)
				}
				who := strings.Join([]string{cluster, topic, group}, "|")
				if other, ok := seen[s.scope]; ok {
					t.Errorf("%s and %s share the scope %s", who, other, s.scope)
				}
				seen[s.scope] = who
			}
		}
	}
	if _, err := newTopicSource(strings.Repeat("g", 255), strings.Repeat("c", 100), strings.Repeat("t", 249)); err == nil {
		t.Error("a scope that the ledger refuses was accepted")
	}
	if a, b := LogName("c", "t", topicID{1}, 11), LogName("c", "t", topicID{1}, 1); a == b {
		t.Errorf("partitions share the log %s", a)
	}
	longest, err := newTopicSource("g", strings.Repeat("c", 180), strings.Repeat("t", 249))
	if err != nil {
		t.Fatal(err)
	}
	d := new(arena).deliveryID(LogName(strings.Repeat("c", 180), strings.Repeat("t", 249), topicID{}, 1<<30), 1<<30, 1<<62)
	if len(longest.scope) > ledger.MaxScope || len(d) > ledger.MaxDelivery {
		t.Errorf("scope %d bytes, delivery %d bytes", len(longest.scope), len(d))
	}
}

// The commit names the topic by the id that was read, and leaves out what the client takes for another topic.
func TestStampsCommits(t *testing.T) {
	t.Parallel()
	mine, other := topicID{1}, topicID{2}
	req := kmsg.NewPtrOffsetCommitRequest()
	for _, topic := range []struct {
		name string
		id   topicID
	}{{"known", mine}, {"forgotten", topicID{}}, {"recreated", other}} {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = topic.name, topic.id
		rt.Partitions = append(rt.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
	}
	stamp(req, "mine", "here", map[string]topicID{"known": mine, "forgotten": mine, "recreated": mine})
	if len(req.Topics) != 2 {
		t.Fatalf("%d topics are committed, want 2", len(req.Topics))
	}
	for _, rt := range req.Topics {
		if rt.TopicID != mine || *rt.Partitions[0].Metadata != noteIn("mine", "here", mine) {
			t.Errorf("%s: id %v, metadata %q", rt.Topic, rt.TopicID, *rt.Partitions[0].Metadata)
		}
	}
}

// A range does not know whether a record was claimed before it: what may have begun must not begin again.
func TestParkKeepsRows(t *testing.T) {
	w, err := NewWorker(good(), memory.New(), nothing, &Config{Options: consumer.Options{Park: true}})
	if err != nil {
		t.Fatal(err)
	}
	if w.set.Audit != AuditRows {
		t.Errorf("Audit is %d with Park, want AuditRows", w.set.Audit)
	}
}

// The client's versions say in their own ways what kgo.ConsumeTopics was given. A way that is not known is no empty list.
func TestTopicsOf(t *testing.T) {
	t.Parallel()
	for _, value := range []any{[]string{"b", "a"}, map[string]*regexp.Regexp{"a": nil, "b": nil}} {
		if got, err := topicsOf(value); err != nil || !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%T: %v, %v, want a and b", value, got, err)
		}
	}
	if got, err := topicsOf(map[string]bool{"a": true}); err == nil || !strings.Contains(err.Error(), "map[string]bool") {
		t.Errorf("an unknown type: %v, %v, want an error that names it", got, err)
	}
}
