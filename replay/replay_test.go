package replay_test

import (
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs/sqstest"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var queueARN = []types.QueueAttributeName{types.QueueAttributeNameQueueArn}

func TestQueueToSource(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, false), numbered(60)
	q.fail(bodies)
	dry := q.replay(q.fromQueue(), q.toSource(), func(c *replay.Config) { c.DryRun, c.By = true, ledger.By{} })
	if dry.Replayed != 60 || q.server.Counts(q.names[1]).Depth() != 60 || len(audits(t, q.ledger)) != 0 {
		t.Errorf("dry run: %+v", dry)
	}
	eventually(t, "what the dry run received is visible again", func() bool { return q.server.Counts(q.names[1]).Visible == 60 })
	report := q.replay(q.fromQueue(), q.toSource())
	if report.Replayed != 60 || !report.Complete() || q.server.Counts(q.names[1]).Depth() != 0 {
		t.Errorf("%+v", report)
	}
	q.worker()
	eventually(t, "all are handled", func() bool { return q.book.count() == 60 && q.server.Counts(q.names[0]).Depth() == 0 })
	q.book.eachOnce(t, bodies)
	if a := audits(t, q.ledger); a[ledger.ActionReplay] != 60 {
		t.Errorf("audit: %v", a)
	}
}

func TestArchiveToQueue(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, false), numbered(60)
	q.fail(bodies)
	if report := q.replay(replay.Archive(q.ledger), q.toSource()); report.Replayed != 60 {
		t.Errorf("%+v", report)
	}
	stop := q.worker()
	eventually(t, "all are handled", func() bool { return q.book.count() == 60 && q.server.Counts(q.names[0]).Depth() == 0 })
	stop()
	// Their dead letters are still in the queue: they are dropped, and nothing runs.
	report := q.replay(q.fromQueue(), q.toSource())
	if report.Succeeded != 60 || report.Replayed != 0 || q.server.Counts(q.names[1]).Depth() != 0 || q.server.Counts(q.names[0]).Depth() != 0 {
		t.Errorf("%+v", report)
	}
	q.book.eachOnce(t, bodies)
}

// Replay keeps the order inside of FIFO groups, and never an old deduplication id (within five minutes such a send answers
// 200 and delivers nothing).
func TestPitfall48_FIFOOrder(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, true), numbered(60)
	q.fail(bodies)
	q.server.Inject(sqstest.Fault{ // the head of a request is refused, less often than one is tried: what is behind it in its group waits
		Action: "SendMessageBatch", Queue: q.names[0], Code: "InternalError", Times: 4, Entries: func(i int, _ string) bool { return i == 0 },
	})
	if report := q.replay(q.fromQueue(), q.toSource()); report.Replayed != 60 || !report.Complete() {
		t.Errorf("%+v", report)
	}
	q.worker()
	eventually(t, "all are handled", func() bool { return q.book.count() == 60 })
	q.book.eachOnce(t, bodies)
	inOrder(t, q.book.bodies(), bodies, 3)
}

// inOrder says that those of one group, of which every n-th body is one, come in their order.
func inOrder(t *testing.T, got, want []string, n int) {
	t.Helper()
	for g := range n {
		var group []string
		for _, body := range got {
			if i := slices.Index(want, body); i%n == g {
				group = append(group, body)
			}
		}
		if !slices.IsSorted(group) {
			t.Errorf("group %d: %q", g, group)
		}
	}
}

func TestTopicToSource(t *testing.T) {
	t.Parallel()
	s, bodies := newTopics(t), numbered(60)
	s.fail(s.records(bodies))
	report := s.replay(s.fromTopic(), s.toSource())
	if report.Replayed != 60 || !report.Complete() {
		t.Errorf("%+v", report)
	}
	stop := s.worker()
	eventually(t, "all are handled", func() bool { return s.book.count() == 60 && s.lag(s.group) == 0 })
	stop()
	s.book.eachOnce(t, bodies)
	if again := s.replay(s.fromTopic(), s.toSource()); again.Succeeded != 60 || again.Replayed != 0 {
		t.Errorf("%+v", again)
	}
}

func TestArchiveInPlace(t *testing.T) {
	t.Parallel()
	s, bodies := newTopics(t), numbered(60)
	s.fail(s.records(bodies))
	if report := s.replay(replay.Archive(s.ledger), s.inPlace()); report.Replayed != 60 || !report.Complete() {
		t.Errorf("%+v", report)
	}
	s.book.eachOnce(t, bodies)
	if again := s.replay(s.fromTopic(), s.inPlace()); again.Succeeded != 60 || again.Replayed != 0 {
		t.Errorf("%+v", again)
	}
	inOrder(t, s.book.bodies(), bodies, 5)
}
