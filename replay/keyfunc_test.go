package replay_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
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

// KeyFunc failed for a message, which was archived under its MessageId; a second copy succeeded under its business key. The
// replay of the first went before KeyFunc, well again by then: the effect was done again.
func TestKeyFuncThatHadFailed(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"from the queue", "from the archive", "in place"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			q := newQueues(t, false)
			works := func(key func(*consumer.Message) (string, error), bodies ...string) {
				t.Helper()
				q.change = func(o *consumer.Options) { o.KeyFunc = key }
				for _, body := range bodies {
					q.send(q.source, awssqs.SendMessageInput{MessageBody: &body})
				}
				stop := q.worker()
				defer stop()
				eventually(t, "the queue is empty", func() bool { return q.server.Counts(q.names[0]).Depth() == 0 })
			}
			works(func(*consumer.Message) (string, error) { return "", errors.New("the lookup is down") }, "order-7", "order-8")
			works(byBody, "order-7")
			src, target := q.fromQueue(), q.toSource()
			switch to {
			case "from the archive":
				src = replay.Archive(q.ledger)
			case "in place":
				o := &replay.InPlaceOptions{Options: options("shop", nil)}
				o.KeyFunc = byBody
				var err error
				if target, err = replay.InPlace(q.book, o); err != nil {
					t.Fatal(err)
				}
			}
			if report := q.replay(src, target); report.Replayed+report.Succeeded != 2 {
				t.Errorf("%+v", report)
			}
			works(byBody)
			q.book.eachOnce(t, []string{"order-7", "order-8"})
		})
	}
}

// Two letters that SQS moved have one business key and two bodies. In place they were one delivery, so that of two failures,
// one of them a mismatch, only the first was archived (found by make model).
func TestTwoBodiesInPlace(t *testing.T) {
	t.Parallel()
	l, b := memory.New(), &book{}
	b.breakAll()
	target := inPlace(t, "shop", b)
	if err := target.Begin(t.Context(), replay.Begin{Operator: l, Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	key := ledger.Key{Scope: replay.Scope("arn:aws:sqs:eu-west-1:1:orders", "shop"), ID: []byte("order-9")}
	var letters []*replay.Letter
	for _, body := range []string{"order-9 at 10", "order-9 at 12"} {
		letter := &replay.Letter{Key: key, Identified: true, Fingerprint: ledger.BodyFingerprint([]byte(body))}
		letter.Message, letter.Consumer = consumer.Message{ID: "order-9", Source: "arn:aws:sqs:eu-west-1:1:orders", Body: []byte(body)}, "shop"
		letters = append(letters, letter)
	}
	results := target.Send(t.Context(), letters)
	if err := target.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec, err := l.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[ledger.FailureKind]string{}
	for _, a := range rec.Archived {
		kinds[a.Kind] = string(a.Body)
	}
	want := map[ledger.FailureKind]string{ledger.KindTerminal: "order-9 at 10", ledger.KindMismatch: "order-9 at 12"}
	if !maps.Equal(kinds, want) {
		t.Errorf("archived: %q, want %q; %+v", kinds, want, results)
	}
}
