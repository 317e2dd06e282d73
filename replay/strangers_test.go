package replay_test

import (
	"fmt"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func attributes(values map[string]string) map[string]types.MessageAttributeValue {
	out := map[string]types.MessageAttributeValue{}
	for name, v := range values {
		out[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(v)}
	}
	return out
}

// deadLetters receives what is in the dead-letter queue, and leaves it there.
func (q *queues) deadLetters() []types.Message {
	q.t.Helper()
	out, err := q.client.ReceiveMessage(q.t.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: &q.dlq, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		q.t.Fatal(err)
	}
	q.server.ExpireVisibility(q.names[1])
	return out.Messages
}

func (q *queues) stamp() *consumer.Stamp {
	q.t.Helper()
	d, err := sqs.ParseDeadLetter(&q.deadLetters()[0])
	if err != nil || d.Stamp == nil {
		q.t.Fatalf("%+v, %v", d, err)
	}
	return d.Stamp
}

func (q *queues) status(id string) ledger.Status {
	q.t.Helper()
	key := ledger.Key{Scope: replay.Scope(q.arn(q.names[0]), "shop"), ID: []byte(id)}
	s, err := q.ledger.Status(q.t.Context(), []ledger.Key{key})
	if err != nil {
		q.t.Fatal(err)
	}
	return s[0]
}

// A forged stamp on another body, one whose fingerprint is made to fit, a copied stamp on three messages, a stamp of another
// queue: nothing is swallowed, and the original's row is untouched. What is left is sent on request, as a message of its own.
func TestPitfall22_ForgedStamps(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"original"})
	stamp := q.stamp()
	before := q.status(stamp.ID)
	fits := *stamp
	fits.Fingerprint = ledger.BodyFingerprint([]byte("made to fit"))
	elsewhere := consumer.NewStamp("arn:aws:sqs:us-east-1:000000000000:others", stamp.ID, []byte("of another queue"))
	bodies := []string{"forged", "made to fit", "of another queue", "copied 1", "copied 2", "copied 3"}
	stamps := []consumer.Stamp{*stamp, fits, elsewhere, *stamp, *stamp, *stamp}
	for i, body := range bodies {
		q.send(q.dlq, awssqs.SendMessageInput{
			MessageBody: aws.String(body), MessageAttributes: attributes(map[string]string{consumer.StampName: stamps[i].String()}),
		})
	}
	report := q.replay(q.fromQueue(), q.toSource(), func(c *replay.Config) {
		c.Filter.IDs = nil
		c.Origin, c.Consumer = q.arn(q.names[0]), "shop"
	})
	if report.Replayed != 1 || report.Mismatched != 5 || report.Refused != 1 || q.server.Counts(q.names[1]).Depth() != 6 {
		t.Fatalf("%+v", report)
	}
	if after := q.status(stamp.ID); after.State != before.State || after.Token != before.Token {
		t.Errorf("the row was %+v, is %+v", before, after)
	}
	q.worker()
	eventually(t, "the original is handled", func() bool { return q.book.count() == 1 })
	q.server.ExpireVisibility(q.names[1])
	again := q.replay(q.fromQueue(), q.toSource(), func(c *replay.Config) {
		c.Mismatched, c.Origin, c.Consumer = true, q.arn(q.names[0]), "shop"
	})
	if again.Replayed != 5 || again.Refused != 1 {
		t.Errorf("%+v", again)
	}
	want := []string{"original", "forged", "made to fit", "copied 1", "copied 2", "copied 3"}
	eventually(t, "each is handled as itself", func() bool { return q.book.count() == len(want) })
	q.book.eachOnce(t, want)
	if a := audits(t, q.ledger); a[ledger.ActionReplay] != 1 || a[ledger.ActionSend] != 5 {
		t.Errorf("audit: %v", a)
	}
}

// What a person sends back by hand runs: with its stamp on its own row, without one as a new message; and a replay of what
// is still in the dead-letter queue then knows which of them succeeded.
func TestByHandWithAndWithoutStamp(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"with", "without"})
	for _, m := range q.deadLetters() {
		in := awssqs.SendMessageInput{MessageBody: m.Body}
		if *m.Body == "with" {
			in.MessageAttributes = m.MessageAttributes
		}
		q.send(q.source, in)
	}
	stop := q.worker()
	eventually(t, "both are handled", func() bool { return q.book.count() == 2 && q.server.Counts(q.names[0]).Depth() == 0 })
	stop()
	// The one without a stamp was another message to everybody: its own dead letter is replayed.
	report := q.replay(q.fromQueue(), q.toSource())
	if report.Succeeded != 1 || report.Replayed != 1 {
		t.Errorf("%+v", report)
	}
}

// The console's redrive gives every message a new MessageId; its stamp leads it to its row, and it runs.
func TestPitfall51_MoveTask(t *testing.T) {
	t.Parallel()
	q, bodies := newQueues(t, false), numbered(20)
	q.fail(bodies)
	arn := q.arn(q.names[1])
	dest := q.arn(q.names[0])
	if _, err := q.client.StartMessageMoveTask(t.Context(), &awssqs.StartMessageMoveTaskInput{SourceArn: &arn, DestinationArn: &dest}); err != nil {
		t.Fatal(err)
	}
	stop := q.worker()
	eventually(t, "all are handled", func() bool { return q.book.count() == 20 && q.server.Counts(q.names[0]).Depth() == 0 })
	stop()
	q.book.eachOnce(t, bodies)
	for m, err := range q.ledger.Messages(t.Context(), ledger.Filter{}) {
		if err != nil || m.State != ledger.Succeeded {
			t.Errorf("%+v, %v", m, err)
		}
	}
	if n := q.ledger.Len(); n != 20 {
		t.Errorf("%d rows for 20 messages", n)
	}
	if report := q.replay(replay.Archive(q.ledger), q.toSource()); report.Succeeded != 20 || report.Replayed != 0 {
		t.Errorf("%+v", report)
	}
}

// What SQS moved by itself keeps its MessageId. A replay that is killed between send and delete sends it twice: both copies
// have one stamp, and one runs.
func TestPitfall103_MovedTwiceWithoutARow(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.worker()() // its scope is known
	q.fail([]string{"first"})
	q.book.mend()
	arn := q.arn(q.names[0])
	move := func() {
		if _, err := q.client.SetQueueAttributes(t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: &q.source, Attributes: map[string]string{
			"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"1"}`, q.arn(q.names[1])),
		}}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := q.client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: &q.source}); err != nil {
				t.Fatal(err)
			}
			q.server.ExpireVisibility(q.names[0])
		}
	}
	q.send(q.source, awssqs.SendMessageInput{MessageBody: aws.String("moved")})
	move()
	eventually(t, "it is moved", func() bool { return q.server.Counts(q.names[1]).Depth() == 2 })
	only := func(c *replay.Config) { c.Consumer, c.Origin = "shop", arn }
	cut := &cutSource{Source: q.fromQueue()}
	if report := q.replay(cut, q.toSource(), only); report.Replayed != 2 {
		t.Fatalf("%+v", report)
	}
	q.server.ExpireVisibility(q.names[1])
	if report := q.replay(q.fromQueue(), q.toSource(), only); report.Replayed != 2 || q.server.Counts(q.names[0]).Depth() != 4 {
		t.Fatalf("%+v", report)
	}
	if _, err := q.client.SetQueueAttributes(t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: &q.source, Attributes: map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"100"}`, q.arn(q.names[1])),
	}}); err != nil {
		t.Fatal(err)
	}
	q.worker()
	eventually(t, "all four copies are acknowledged", func() bool { return q.server.Counts(q.names[0]).Depth() == 0 })
	q.book.eachOnce(t, []string{"first", "moved"})
}

// Ten attributes of its own leave no room for a stamp: to the queue it is refused, in place it is replayed, whole.
func TestTenAttributes(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	own := map[string]string{}
	for i := range 10 {
		own[fmt.Sprintf("attribute-%d", i)] = fmt.Sprint(i)
	}
	q.book.breakAll()
	q.send(q.source, awssqs.SendMessageInput{MessageBody: aws.String("full"), MessageAttributes: attributes(own)})
	stop := q.worker()
	eventually(t, "it is a dead letter", func() bool {
		return q.server.Counts(q.names[1]).Depth() == 1 && q.server.Counts(q.names[0]).Depth() == 0
	})
	stop()
	q.book.mend()
	if report := q.replay(q.fromQueue(), q.toSource()); report.Refused != 1 || q.server.Counts(q.names[1]).Depth() != 1 {
		t.Errorf("%+v", report)
	}
	q.server.ExpireVisibility(q.names[1])
	if report := q.replay(q.fromQueue(), inPlace(t, "shop", q.book)); report.Replayed != 1 || q.server.Counts(q.names[1]).Depth() != 0 {
		t.Errorf("%+v", report)
	}
	q.book.eachOnce(t, []string{"full"})
	if got := q.book.seen[0].Headers; len(got) != 10 {
		t.Errorf("%d attributes: %v", len(got), got)
	}
}
