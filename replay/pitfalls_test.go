package replay_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Tombstones, nil and empty keys, repeated headers, empty values and old timestamps survive dead-lettering and replay to the byte,
// back to the topic and in place.
func TestPitfall64_ByteForByte(t *testing.T) {
	t.Parallel()
	sent := func(s *topics) []*kgo.Record {
		long := time.UnixMilli(1_700_000_000_123)
		return []*kgo.Record{
			{Topic: s.source, Key: []byte("tombstone"), Timestamp: long},
			{Topic: s.source, Value: []byte("no key"), Timestamp: long},
			{Topic: s.source, Key: []byte("k"), Value: []byte{}, Timestamp: long},
			{Topic: s.source, Key: []byte{}, Value: []byte("an empty key"), Timestamp: long},
			{Topic: s.source, Key: []byte{0, 0xff, 'k'}, Value: []byte{0, 0xfe}, Timestamp: long, Headers: []kgo.RecordHeader{
				{Key: "b", Value: []byte("2")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte("1")}, {Key: "a", Value: []byte{}},
			}},
		}
	}
	show := func(key, value []byte, at time.Time, headers []ledger.Header) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%#v %#v %d", key, value, at.UnixMilli())
		for _, h := range headers {
			if h.Name != consumer.StampName {
				fmt.Fprintf(&b, " %s=%#v", h.Name, h.Value)
			}
		}
		return b.String()
	}
	check := func(t *testing.T, s *topics) {
		t.Helper()
		var got, want []string
		for _, m := range s.book.seen {
			got = append(got, show(m.Key, m.Body, m.SentAt, m.Headers))
		}
		for _, r := range sent(s) {
			var headers []ledger.Header
			for _, h := range r.Headers {
				headers = append(headers, ledger.Header{Name: h.Key, Value: h.Value})
			}
			want = append(want, show(r.Key, r.Value, r.Timestamp, headers))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for name, ends := range map[string]func(s *topics) (replay.Source, replay.Target){
		"topic to source":   func(s *topics) (replay.Source, replay.Target) { return s.fromTopic(), s.toSource() },
		"topic in place":    func(s *topics) (replay.Source, replay.Target) { return s.fromTopic(), s.inPlace() },
		"archive to source": func(s *topics) (replay.Source, replay.Target) { return replay.Archive(s.ledger), s.toSource() },
		"archive in place":  func(s *topics) (replay.Source, replay.Target) { return replay.Archive(s.ledger), s.inPlace() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTopics(t)
			s.fail(sent(s))
			src, dst := ends(s)
			if report := s.replay(src, dst); report.Replayed != 5 || !report.Complete() {
				t.Errorf("%+v", report)
			}
			stop := s.worker()
			eventually(t, "all are handled", func() bool { s.book.mu.Lock(); defer s.book.mu.Unlock(); return len(s.book.seen) == 5 })
			eventually(t, "all is committed", func() bool { return s.lag(s.group) == 0 })
			stop()
			check(t, s)
		})
	}
}

// A dead letter whose message succeeded meanwhile is dropped, and runs nothing.
func TestPitfall75_SucceededMeanwhile(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, false), numbered(20)
	q.fail(bodies)
	if report := q.replay(replay.Archive(q.ledger), inPlace(t, "shop", q.book)); report.Replayed != 20 {
		t.Fatalf("%+v", report)
	}
	report := q.replay(q.fromQueue(), q.toSource())
	if report.Succeeded != 20 || report.Replayed != 0 || q.server.Counts(q.names[0]).Depth() != 0 || q.server.Counts(q.names[1]).Depth() != 0 {
		t.Errorf("%+v", report)
	}
	q.book.eachOnce(t, bodies)
}

// Two replays of one queue at once, one of them killed in the middle: every message is handled once, none is lost.
func TestPitfall76_TwoAtOnce(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, false), numbered(100)
	q.fail(bodies)
	q.worker()
	var both sync.WaitGroup
	for _, dst := range []replay.Target{q.toSource(), &cutTarget{Target: q.toSource(), left: 20}} {
		src := q.fromQueue()
		both.Go(func() {
			_, _ = replay.Run(t.Context(), q.ledger, src, dst, replay.Config{By: by, StopAfter: 1}) // one of them is "killed"
		})
	}
	both.Wait()
	q.server.ExpireVisibility(q.names[1])
	for q.server.Counts(q.names[1]).Depth() > 0 {
		q.replay(q.fromQueue(), q.toSource())
		q.server.ExpireVisibility(q.names[1])
	}
	eventually(t, "all are handled", func() bool { return q.book.count() == 100 && q.server.Counts(q.names[0]).Depth() == 0 })
	q.book.eachOnce(t, bodies)
}

// A replay that is killed before or after any send leaves messages that failed, or whose copy was claimed: the next one
// finishes, and sends nothing that was handled.
func TestPitfall83_KilledAnywhere(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, false), numbered(12)
	q.fail(bodies)
	stop := q.worker()
	for cut := range 4 {
		src := q.fromQueue()
		if cut%2 == 0 { // killed before it removes what it has sent
			src = &cutSource{Source: src}
		}
		dst := &cutTarget{Target: q.toSource(), left: cut}
		report, err := replay.Run(t.Context(), q.ledger, src, dst, replay.Config{By: by, StopAfter: 1, Concurrency: 1})
		if !errors.Is(err, replay.ErrStopped) || report.Stopped == "" {
			t.Fatalf("%v, %+v", err, report)
		}
		q.server.ExpireVisibility(q.names[1])
	}
	q.replay(q.fromQueue(), q.toSource())
	eventually(t, "all are handled", func() bool { return q.book.count() == 12 && q.server.Counts(q.names[0]).Depth() == 0 })
	stop()
	q.book.eachOnce(t, bodies)
	if n := q.server.Counts(q.names[1]).Depth(); n != 0 {
		t.Errorf("%d dead letters are left", n)
	}
}

// A dead letter whose message is live stays where it is; the others are replayed, and a later run finds it.
func TestPitfall96_LiveInTheMiddle(t *testing.T) {
	t.Parallel()
	s, bodies := newTopics(t), numbered(20)
	s.fail(s.records(bodies))
	owner, err := s.ledger.Join(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	claimFailed(t, s.ledger, owner, 10)
	report := s.replay(s.fromTopic(), s.inPlace())
	if report.Replayed+report.Left != 20 || report.Reasons[replay.Live] != 1 || report.Reasons[replay.Behind] != report.Left-1 || report.Complete() {
		t.Errorf("%+v", report)
	}
	if err := owner.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := report.Left
	if report = s.replay(s.fromTopic(), s.inPlace()); report.Replayed != left || report.Succeeded != 20-left || !report.Complete() {
		t.Errorf("%+v", report)
	}
	s.book.eachOnce(t, bodies)
}

// claimFailed claims the n-th failed message as a replay in place does.
func claimFailed(t *testing.T, l interface {
	ledger.Operator
	ledger.Ledger
}, owner ledger.Owner, n int) {
	t.Helper()
	i := 0
	for d, err := range l.DeadLetters(t.Context(), ledger.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if i++; i != n {
			continue
		}
		claims, err := owner.Claim(t.Context(), []ledger.Entry{{
			Key: d.Key, Fingerprint: d.Fingerprint, Delivery: fmt.Appendf(nil, "replay:%d", d.Token), StampToken: d.Token, Window: time.Hour,
		}})
		if err != nil || claims[0].Answer != ledger.Run {
			t.Fatalf("%+v, %v", claims, err)
		}
	}
}

// The bug still lives: a replay ends, and does not chase its own failures.
func TestPitfall97_TheBugStillLives(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, false), numbered(30)
	q.fail(bodies)
	q.book.breakAll()
	q.worker()
	if report := q.replay(q.fromQueue(), q.toSource()); report.Replayed != 30 {
		t.Errorf("%+v", report)
	}
	eventually(t, "all are dead letters again", func() bool {
		return q.server.Counts(q.names[1]).Depth() == 30 && q.server.Counts(q.names[0]).Depth() == 0
	})
}

// A dead-letter topic is replayed five times while the bug lives: each failure is run again once, nothing doubles.
func TestPitfall116_NothingDoubles(t *testing.T) {
	t.Parallel()
	s, bodies := newTopics(t), numbered(10)
	s.fail(s.records(bodies))
	s.book.breakAll()
	stop := s.worker()
	for round := range 5 {
		if report := s.replay(s.fromTopic(), s.toSource()); report.Replayed != 10 || report.Superseded != int64(10*round) {
			t.Fatalf("round %d: %+v", round, report)
		}
		eventually(t, "all failed again", func() bool { return s.depth(s.dlq) == int64(10*(round+2)) && s.lag(s.group) == 0 })
	}
	s.book.mend()
	if report := s.replay(s.fromTopic(), s.toSource()); report.Replayed != 10 || report.Superseded != 50 {
		t.Fatalf("%+v", report)
	}
	eventually(t, "all are handled", func() bool { return s.book.count() == 10 && s.lag(s.group) == 0 })
	stop()
	s.book.eachOnce(t, bodies)
}

// A replay in place is killed: its message is pending and nobody's, so the archive still lists it, and the next replay runs
// it.
func TestPitfall117_KilledInPlace(t *testing.T) {
	t.Parallel()
	s, bodies := newTopics(t), numbered(5)
	s.fail(s.records(bodies))
	owner, err := s.ledger.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claimFailed(t, s.ledger, owner, 3)
	if !s.ledger.Declare(owner.ID()) {
		t.Fatal("the owner is not declared dead")
	}
	if report := s.replay(replay.Archive(s.ledger), s.inPlace()); report.Replayed != 5 || report.Reasons[replay.Abandoned] != 1 {
		t.Errorf("%+v", report)
	}
	s.book.eachOnce(t, bodies)
}

// Two records with one business key both fail: the message is archived once for each, and a replay runs it once.
func TestPitfall104_OneBusinessKey(t *testing.T) {
	t.Parallel()
	s := newTopics(t)
	key := func(c *kafka.Config) { c.KeyFunc = func(*consumer.Message) (string, error) { return "order-1", nil } }
	s.book.breakAll()
	s.produce(&kgo.Record{Topic: s.source, Key: []byte("a"), Value: []byte("order 1")}, &kgo.Record{Topic: s.source, Key: []byte("b"), Value: []byte("order 1")})
	stop := s.worker(key)
	eventually(t, "both are dead letters", func() bool { return s.depth(s.dlq) == 2 && s.lag(s.group) == 0 })
	s.book.mend()
	// The other is of an older failure, or of what the worker has done by then.
	if report := s.replay(s.fromTopic(), s.toSource()); report.Replayed != 1 || report.Superseded+report.Succeeded != 1 {
		t.Errorf("%+v", report)
	}
	eventually(t, "it is handled", func() bool { return s.book.count() == 1 && s.lag(s.group) == 0 })
	stop()
	s.book.eachOnce(t, []string{"order 1"})
}

// A record that is put back on a topic reaches every group: with another one on it, it is refused without being asked for;
// with it, that group's worker skips the copy.
func TestForeignGroups(t *testing.T) {
	t.Parallel()
	s := newTopics(t)
	s.fail(s.records([]string{"order 1"}))
	other := &topics{t: t, seeds: s.seeds, client: s.client, source: s.source, dlq: s.dlq, ledger: s.ledger, book: &book{}}
	stop := other.workerOf("auditors")
	eventually(t, "the other group has handled it", func() bool { return other.book.count() == 1 && other.lag("auditors") == 0 })
	if report := s.replay(s.fromTopic(), s.toSource()); report.Refused != 1 || report.Replayed != 0 {
		t.Errorf("%+v", report)
	}
	asked, err := kafka.NewReplayTarget(s.client, &kafka.ReplayTargetOptions{AllowGroups: true})
	if err != nil {
		t.Fatal(err)
	}
	if report := s.replay(s.fromTopic(), asked); report.Replayed != 1 {
		t.Errorf("%+v", report)
	}
	s.worker()
	eventually(t, "both groups are done", func() bool { return s.book.count() == 1 && s.lag(s.group) == 0 && s.lag("auditors") == 0 })
	stop()
	s.book.eachOnce(t, []string{"order 1"})
	other.book.eachOnce(t, []string{"order 1"})
}
