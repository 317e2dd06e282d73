package kafka

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

// reader takes records in as a poll does, without a cluster.
type reader struct {
	*Worker
	t *testing.T
	a *assignment
}

func newReader(t *testing.T, c *Config) *reader {
	t.Helper()
	w, err := NewWorker(good(), memory.New(), nothing, c)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{Worker: w, t: t}
	r.begin(0)
	return r
}

// begin is another assignment.
func (r *reader) begin(start int64) {
	r.a = newAssignment(place{Topic: "a", Partition: 0}, topicID{1}, "log")
	r.a.source, r.a.Start = topicSource{scope: "s", name: "c/a"}, start
	r.table.install(r.a)
}

func record(offset int64, epoch int32) *kgo.Record {
	return &kgo.Record{Topic: "a", Offset: offset, LeaderEpoch: epoch, Value: []byte("v")}
}

func (r *reader) takePartition(id topicID, p *kgo.FetchPartition) []*delivery {
	if a := r.takes("a", id, p); a != nil {
		return r.accept(a, p.Records)
	}
	return nil
}

// fetch returns "offset after prev" of what comes of a fetch.
func (r *reader) fetch(p kgo.FetchPartition, id topicID) (out []string) {
	for _, it := range prepare(&r.set, r.takePartition(id, &p), nil, nil) {
		if !it.Skip {
			out = append(out, show(it))
		}
	}
	return out
}

func show(it *engine.Item) string {
	pos := it.Ref.(*delivery).pos
	return fmt.Sprintf("%d after %d", pos.Offset, pos.Prev)
}

func (r *reader) records(list ...*kgo.Record) []string {
	return r.fetch(kgo.FetchPartition{Records: list}, topicID{1})
}

func (r *reader) want(what string, got []string, want ...string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func control(offset int64, epoch int32) *kgo.Record {
	r := record(offset, epoch)
	r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Control: true})
	return r
}

// The ledger takes what lies between a record and the one before it for finished. So the one before it is said only if
// the broker itself has left out what lies between: a wrong word here loses messages when a worker crashes.
func TestPrevCoversOnlyWhatTheBrokerLeftOut(t *testing.T) {
	t.Parallel()
	r := newReader(t, nil)
	r.want("the first of an assignment", r.records(record(5, 1), record(6, 1)), "5 after -1", "6 after 5")
	r.want("a gap", r.records(record(20, 1)), "20 after 6")
	r.want("a control record", r.records(control(21, 1), record(22, 1), control(23, 1)), "22 after 20")
	r.want("control records at the seam of two fetches", r.records(control(24, 1), record(30, 1)), "30 after 22")
	r.want("what was delivered before", r.records(record(22, 1), record(30, 1), record(31, 1)), "31 after 30")
	r.want("a new leader epoch", r.records(record(32, 4)), "32 after 31")

	other := record(33, 4)
	s := consumer.Stamp{Source: "c/a", ID: "x", Fingerprint: ledger.BodyFingerprint(other.Value), Group: "another", Token: 3}
	other.Headers = []kgo.RecordHeader{{Key: consumer.StampName, Value: []byte(s.String())}}
	r.want("a copy for another group, which all members skip", r.records(other, record(34, 4)), "34 after 32")

	ours := record(35, 4)
	s.Group = ""
	ours.Headers = []kgo.RecordHeader{{Key: consumer.StampName, Value: []byte(s.String())}}
	items := prepare(&r.set, r.takePartition(topicID{1}, &kgo.FetchPartition{Records: []*kgo.Record{ours, record(36, 4)}}), nil, nil)
	if len(items) != 2 || items[0].Ranged || !items[1].Ranged {
		t.Fatalf("a stamped copy and a record: %+v", items)
	}
	r.want("a copy with an identity of its own", []string{show(items[1])}, "36 after 35")

	r.begin(37)
	r.want("the first record is a control record", r.records(control(37, 4), record(38, 4)), "38 after -1")
	r.begin(10)
	r.want("a reset backwards", r.records(record(12, 1), record(36, 4)), "12 after -1", "36 after 12")
	r.table.close(func(*assignment) bool { return true })
	r.want("a revoked partition", r.records(record(40, 4)))
}

// A fetch of which the client or the broker says that it is another topic's is thrown away. What follows it must not be
// taken in, not even if that is the right topic's again: it would pass over what was thrown away.
func TestNothingFollowsRecordsThatWereThrownAway(t *testing.T) {
	t.Parallel()
	r := newReader(t, nil)
	list := func(at ...int64) (p kgo.FetchPartition) {
		for _, o := range at {
			p.Records = append(p.Records, record(o, 1))
		}
		return p
	}
	r.want("the topic", r.fetch(list(0, 1), topicID{1}), "0 after -1", "1 after 0")
	r.want("another topic", r.fetch(list(2, 3), topicID{2}))
	r.want("the topic again", r.fetch(list(4), topicID{1}))
	r.want("a fetch without an id", r.fetch(list(5), topicID{}))
	if n := r.a.Span(); n != 2 {
		t.Errorf("%d records were taken in", n)
	}
	if !r.isAstray("a") {
		t.Error("the topic is not joined afresh")
	}
	r.begin(2)
	r.want("joined afresh", r.fetch(list(2, 3), topicID{1}), "2 after -1", "3 after 2")
}

// Only records that are known by their position are held in ranges, and only if rows are not asked for. The log's start
// goes with them.
func TestWhatIsHeldInRanges(t *testing.T) {
	t.Parallel()
	p := kgo.FetchPartition{LogStartOffset: 3, Records: []*kgo.Record{record(5, 1)}}
	for name, c := range map[string]struct {
		config *Config
		ranged bool
	}{
		"default": {nil, true},
		"ranges":  {&Config{Audit: AuditRanges}, true},
		"rows":    {&Config{Audit: AuditRows}, false},
		"KeyFunc": {&Config{Options: consumer.Options{KeyFunc: func(*consumer.Message) (string, error) { return "k", nil }}}, false},
	} {
		r := newReader(t, c.config)
		items := prepare(&r.set, r.takePartition(topicID{1}, &p), nil, nil)
		if len(items) != 1 || items[0].Ranged != c.ranged {
			t.Errorf("%s: %+v, want ranged %v", name, items, c.ranged)
			continue
		}
		if pos := items[0].Key.Pos; pos != nil && pos.First != 3 {
			t.Errorf("%s: the log begins at %d, want 3", name, pos.First)
		}
	}
	r := newReader(t, nil)
	p.LogStartOffset = -1
	if it := prepare(&r.set, r.takePartition(topicID{1}, &p), nil, nil)[0]; it.Key.Pos.First != 0 {
		t.Errorf("a broker that does not tell: the log begins at %d", it.Key.Pos.First)
	}
}

// Retention passes a partition that is read slowly: the client goes on where the log begins now.
func TestRecordsThatRetentionTookAreReported(t *testing.T) {
	t.Parallel()
	r := newReader(t, nil)
	for _, c := range []struct {
		start, offset int64
		warnings      int
		taken         string
	}{{3, 5, 0, "5 after -1"}, {6, 6, 0, "6 after 5"}, {7, 9, 0, "9 after 6"}, {11, 11, 1, "11 after -1"}, {12, 12, 1, "12 after 11"}} {
		taken := r.fetch(kgo.FetchPartition{LogStartOffset: c.start, Records: []*kgo.Record{record(c.offset, 1)}}, topicID{1})
		if n := len(r.Health().Warnings); n != c.warnings {
			t.Errorf("record %d of a log that begins at %d: %d warnings, want %d", c.offset, c.start, n, c.warnings)
		}
		r.want("what is gone is not taken for finished", taken, c.taken)
	}
}
