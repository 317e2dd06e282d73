package replay_test

import (
	"errors"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/replay"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// redriven sends a message that SQS itself moves to the dead-letter queue, received once too often.
func (q *queues) redriven(body string) {
	q.t.Helper()
	q.send(q.source, awssqs.SendMessageInput{MessageBody: &body})
	q.moved()
}

// moved receives what is in the source until SQS has moved it.
func (q *queues) moved() {
	q.t.Helper()
	q.redrive(q.source, q.arn(q.names[1]), 1)
	eventually(q.t, "it is moved", func() bool {
		if _, err := q.client.ReceiveMessage(q.t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: &q.source}); err != nil {
			q.t.Fatal(err)
		}
		q.server.ExpireVisibility(q.names[0])
		return q.server.Counts(q.names[0]).Depth() == 0
	})
	q.redrive(q.source, q.arn(q.names[1]), 100)
}

func byBody(m *consumer.Message) (string, error) { return string(m.Body), nil }

// A second copy of a message that succeeded was moved by SQS, which knows it by its MessageId alone. Its replay had a stamp
// with that id, which went before KeyFunc: the effect was done again.
func TestKeyFuncOfWhatSQSMoved(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.change = func(o *consumer.Options) { o.KeyFunc = byBody }
	works := func() {
		t.Helper()
		stop := q.worker()
		defer stop()
		eventually(t, "the queue is empty", func() bool { return q.server.Counts(q.names[0]).Depth() == 0 })
	}
	q.send(q.source, awssqs.SendMessageInput{MessageBody: aws.String("order-7")})
	works()
	for range 2 { // the second time it comes with the stamp of the first replay
		if q.server.Counts(q.names[1]).Depth() == 0 {
			q.redriven("order-7")
		}
		if report := q.replay(q.fromQueue(), q.toSource()); report.Replayed != 1 {
			t.Fatalf("%+v", report)
		}
		q.moved()
	}
	if report := q.replay(q.fromQueue(), q.toSource()); report.Replayed != 1 {
		t.Fatalf("%+v", report)
	}
	works()
	q.book.eachOnce(t, []string{"order-7"})
}

// In place KeyFunc finds the row of what SQS moved. What it refuses stays where it is.
func TestKeyFuncInPlace(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.change = func(o *consumer.Options) { o.KeyFunc = byBody }
	q.send(q.source, awssqs.SendMessageInput{MessageBody: aws.String("order-7")})
	stop := q.worker()
	eventually(t, "order-7 succeeded", func() bool { return q.book.count() == 1 && q.server.Counts(q.names[0]).Depth() == 0 })
	stop()
	for _, body := range []string{"order-7", "order-8", "not an order"} {
		q.redriven(body)
	}
	o := &replay.InPlaceOptions{Options: options("shop", nil)}
	o.KeyFunc = func(m *consumer.Message) (string, error) {
		if string(m.Body) == "not an order" {
			return "", errors.New("no number")
		}
		return byBody(m)
	}
	target, err := replay.InPlace(q.book, o)
	if err != nil {
		t.Fatal(err)
	}
	report := q.replay(q.fromQueue(), target)
	if report.Replayed != 1 || report.Succeeded != 1 || report.Refused != 1 || q.server.Counts(q.names[1]).Depth() != 1 {
		t.Errorf("%+v", report)
	}
	q.book.eachOnce(t, []string{"order-7", "order-8"})
}
