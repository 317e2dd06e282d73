package replay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kgo"
)

// redrive lets a queue move what was received more often than allowed.
func (q *queues) redrive(url, to string, receives int) {
	q.t.Helper()
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, to, receives)
	if _, err := q.client.SetQueueAttributes(q.t.Context(), &awssqs.SetQueueAttributesInput{
		QueueUrl: &url, Attributes: map[string]string{"RedrivePolicy": policy},
	}); err != nil {
		q.t.Fatal(err)
	}
}

// The source queue named in place of its dead-letter queue: each dry run received what was live, and after maxReceiveCount of
// them SQS moved it to the dead-letter queue unhandled.
func TestSourceIsLive(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, q *queues, src replay.Source, dst replay.Target) {
		t.Helper()
		for _, dry := range []bool{true, true, true, true, false} {
			report, err := replay.Run(t.Context(), q.ledger, src, dst, replay.Config{By: by, DryRun: dry})
			if err == nil || !strings.Contains(err.Error(), "its messages are live") || report.Read != 0 {
				t.Errorf("dry run %t: %v, %+v", dry, err, report)
			}
			q.server.ExpireVisibility(q.names[0])
		}
	}
	t.Run("queue", func(t *testing.T) {
		t.Parallel()
		q := newQueues(t, false)
		q.fail(numbered(1)) // so its scope is known
		q.redrive(q.source, q.arn(q.names[1]), 3)
		for _, body := range numbered(5) {
			q.send(q.source, awssqs.SendMessageInput{MessageBody: aws.String(body)})
		}
		src, err := sqs.NewReplaySource(q.client, q.source, 0)
		if err != nil {
			t.Fatal(err)
		}
		home, err := sqs.NewReplayTarget(q.client)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, q, src, home)
		refused(t, q, src, inPlace(t, "shop", q.book))
		if live, dead := q.server.Counts(q.names[0]), q.server.Counts(q.names[1]); live.Visible != 5 || dead.Depth() != 1 {
			t.Errorf("%+v are live, %+v dead", live, dead)
		}
	})
	t.Run("topic", func(t *testing.T) {
		t.Parallel()
		s := newTopics(t)
		s.fail(s.records(numbered(1)))
		src, err := kafka.NewReplaySource([]kgo.Opt{s.seeds}, s.source)
		if err != nil {
			t.Fatal(err)
		}
		_, err = replay.Run(t.Context(), s.ledger, src, s.inPlace(), replay.Config{By: by, DryRun: true})
		if err == nil || !strings.Contains(err.Error(), "its messages are live") {
			t.Error(err)
		}
	})
}

// A dead-letter queue may have a redrive policy of its own, and so may a queue that is live in another ledger.
func TestSourceThatRedrives(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	if _, err := q.server.CreateQueue("graveyard", nil); err != nil {
		t.Fatal(err)
	}
	q.fail(numbered(1))
	dry := func(c *replay.Config) { c.DryRun = true }
	if report := q.replay(q.fromQueue(), q.toSource(), dry); len(report.Warnings) != 0 {
		t.Errorf("without a policy: %q", report.Warnings)
	}
	q.server.ExpireVisibility(q.names[1])
	q.redrive(q.dlq, q.arn("graveyard"), 10)
	report := q.replay(q.fromQueue(), q.toSource(), dry)
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "redrive policy of its own") || !strings.Contains(report.Warnings[0], "graveyard") {
		t.Errorf("with one: %q", report.Warnings)
	}
}
