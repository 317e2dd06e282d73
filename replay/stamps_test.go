package replay_test

import (
	"bytes"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Where workers have keys, a replay signs what it sends, and does not sign for others: a letter that somebody has put into the
// dead-letter queue, and that names a message which nobody has seen yet, is refused. Without keys it sends nothing, since
// each copy would run as another message.
func TestReplayOfSignedStamps(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	keys := []consumer.StampKey{{ID: "next", Secret: bytes.Repeat([]byte{2}, 32)}, {ID: "old", Secret: bytes.Repeat([]byte{1}, 32)}}
	q.change = func(o *consumer.Options) { o.Stamps.Keys = keys[1:] }
	bodies := numbered(3)
	q.fail(bodies)
	if s := q.stamp(); !s.SignedBy(keys[1]) {
		t.Fatalf("the dead letter's stamp is not signed: %+v", s)
	}
	report := q.replay(q.fromQueue(), q.toSource(), func(*replay.Config) {})
	if report.Refused != 3 || report.Reasons[replay.Keyless] != 3 || q.server.Counts(q.names[1]).Depth() != 3 {
		t.Fatalf("without keys: %+v", report)
	}
	forged := consumer.NewStamp(q.arn(q.names[0]), "order 7", []byte("forged"))
	q.send(q.dlq, awssqs.SendMessageInput{
		MessageBody: aws.String("forged"), MessageAttributes: attributes(map[string]string{consumer.StampName: forged.String()}),
	})
	report = q.replay(q.fromQueue(), q.toSource(), func(c *replay.Config) {
		c.StampKeys, c.Unknown, c.Consumer = keys, true, "shop"
	})
	if report.Replayed != 3 || report.Refused != 1 || report.Reasons[replay.Unsigned] != 1 {
		t.Fatalf("with keys: %+v", report)
	}
	q.change = func(o *consumer.Options) { o.Stamps.Keys = keys }
	stop := q.worker()
	eventually(t, "the copies are handled", func() bool { return q.server.Counts(q.names[0]).Depth() == 0 })
	stop()
	q.book.eachOnce(t, bodies)
	if n := q.ledger.Len(); n != 3 {
		t.Errorf("%d rows: the copies did not meet their own", n)
	}
	q.server.ExpireVisibility(q.names[1]) // the run's receive hides it for 2 s
	if left := q.deadLetters(); len(left) != 1 || aws.ToString(left[0].Body) != "forged" {
		t.Errorf("%d letters are left", len(left))
	}
}

// A letter from before there were keys is sent, signed, since the ledger knows it.
func TestReplayOfUnsignedStampsThatTheLedgerKnows(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	bodies := numbered(2)
	q.fail(bodies)
	keys := []consumer.StampKey{{ID: "new", Secret: bytes.Repeat([]byte{1}, 32)}}
	if report := q.replay(q.fromQueue(), q.toSource(), func(c *replay.Config) { c.StampKeys = keys }); report.Replayed != 2 {
		t.Fatalf("%+v", report)
	}
	q.change = func(o *consumer.Options) { o.Stamps.Keys = keys }
	q.worker()
	eventually(t, "the copies are handled", func() bool { return q.server.Counts(q.names[0]).Depth() == 0 })
	q.book.eachOnce(t, bodies)
	if n := q.ledger.Len(); n != 2 {
		t.Errorf("%d rows: the copies did not meet their own", n)
	}
}

func TestStampInputSigns(t *testing.T) {
	key := consumer.StampKey{ID: "k", Secret: bytes.Repeat([]byte{1}, 32)}
	in := &awssqs.SendMessageInput{MessageBody: aws.String("body")}
	if err := sqs.StampInput(in, "arn:aws:sqs:eu-west-1:1:orders", "order 7", key); err != nil {
		t.Fatal(err)
	}
	s, err := consumer.ParseStamp([]byte(*in.MessageAttributes[consumer.StampName].StringValue))
	if err != nil || !s.SignedBy(key) || s.Fingerprint != ledger.BodyFingerprint([]byte("body")) {
		t.Errorf("%+v, %v", s, err)
	}
	if err := sqs.StampInput(in, "arn:aws:sqs:eu-west-1:1:orders", "order 7", consumer.StampKey{ID: "k"}); err == nil {
		t.Error("signed with no secret")
	}
}
