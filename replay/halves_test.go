package replay_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// halves is a fingerprint that agrees with both bodies.
func halves(first, second string) (f ledger.Fingerprint) {
	a, b := ledger.BodyFingerprint([]byte(first)), ledger.BodyFingerprint([]byte(second))
	copy(f[:8], a[:8])
	copy(f[8:], b[8:])
	return f
}

// letterOf is a forged dead letter.
func letterOf(body string, stamp *consumer.Stamp, envelope string) awssqs.SendMessageInput {
	return awssqs.SendMessageInput{MessageBody: &body, MessageAttributes: attributes(map[string]string{
		consumer.StampName: stamp.String(), sqs.EnvelopeName: envelope,
	})}
}

// Two fingerprints agree if one half does. A stamp of one half of its own body and one of another's agrees with its body and
// with the other's row: neither speaks for it.
func TestPitfall138_FingerprintOfTwoHalves(t *testing.T) {
	for name, fp := range map[string]ledger.Fingerprint{"evil first": halves("evil", "a payment"), "known first": halves("a payment", "evil")} {
		for _, kind := range []ledger.FailureKind{ledger.KindExhausted, ledger.KindMismatch} {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				t.Parallel()
				q := newQueues(t, false)
				q.fail([]string{"original"})
				q.book.breakAll()
				_, arn, id := q.payment(q.book)
				q.book.mend()
				stamp := consumer.Stamp{Source: arn, ID: id, Fingerprint: fp}
				q.send(q.dlq, letterOf("evil", &stamp, sealedAs(arn, "shop", id, kind)))
				for _, mismatched := range []bool{false, true} {
					report := q.replay(q.fromQueue(), q.home(), func(c *replay.Config) { c.Mismatched = mismatched })
					if n := q.server.Counts("payments").Depth(); n != 0 {
						t.Fatalf("%d forged letters are in the other team's queue: %+v", n, report)
					}
					q.server.ExpireVisibility(q.names[1])
				}
				for range 2 {
					q.replay(q.fromQueue(), inPlace(t, "shop", q.book))
					q.server.ExpireVisibility(q.names[1])
				}
				if n := q.book.effects()["evil"]; n != 0 {
					t.Errorf("the forged body ran %d times for another message", n)
				}
				key := ledger.Key{Scope: replay.Scope(arn, "shop"), ID: []byte(id)}
				if r, err := q.ledger.Get(t.Context(), key); err != nil || r.State != ledger.Failed {
					t.Errorf("the payment is %s, %v", r.State, err)
				}
			})
		}
	}
}

// What somebody wrote into the archive under a name that is no worker's goes nowhere, whatever it says of itself.
func TestArchiveOfAnOddScope(t *testing.T) {
	q := newQueues(t, false)
	if _, err := q.server.CreateQueue("payments", nil); err != nil {
		t.Fatal(err)
	}
	arn := q.arn("payments")
	o, err := q.ledger.Join(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	scopes := []string{"odd", "kafka:x", "kafka:%zz/a/b", "sqs:" + arn}
	for _, scope := range scopes {
		e := ledger.Entry{
			Key: ledger.Key{Scope: scope, ID: []byte("m1")}, Fingerprint: ledger.BodyFingerprint([]byte("evil")), Delivery: []byte("d"), Window: time.Hour,
		}
		c, err := o.Claim(t.Context(), []ledger.Entry{e})
		if err != nil {
			t.Fatal(err)
		}
		errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: c[0].Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
			Key: e.Key, Delivery: e.Delivery, Kind: ledger.KindTerminal, Body: []byte("evil"), Source: arn, Keep: time.Hour, Fingerprint: e.Fingerprint,
		}}})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	report := q.replay(replay.Archive(q.ledger), q.home())
	if n := q.server.Counts("payments").Depth(); n != 0 || report.Reasons[replay.Astray] != int64(len(scopes)) {
		t.Errorf("%d were sent: %+v", n, report)
	}
}

// A worker that refuses a producer's stamp knows the message by its MessageId. So does a replay in place with its options, once
// SQS has moved the message.
func TestInPlaceRefusesWhatTheWorkerRefuses(t *testing.T) {
	keys := []consumer.StampKey{{ID: "a", Secret: []byte(strings.Repeat("k", 32))}}
	for name, stamps := range map[string]consumer.Stamps{"all": {Ignore: true}, "unsigned": {Keys: keys}} {
		for how, key := range map[string]func(*consumer.Message) (string, error){"by MessageId": nil, "by KeyFunc": byBody} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				q := newQueues(t, false)
				arn := q.arn(q.names[0])
				stamp := consumer.NewStamp(arn, "the producer's", []byte("order-7"))
				q.change = func(o *consumer.Options) { o.Stamps, o.KeyFunc = stamps, key }
				q.send(q.source, awssqs.SendMessageInput{MessageBody: aws.String("order-7"), MessageAttributes: attributes(map[string]string{consumer.StampName: stamp.String()})})
				q.server.ExpireVisibility(q.names[0])
				restore := q.server.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Queue: q.names[0], Status: http.StatusServiceUnavailable, Times: -1})
				c := &sqs.Config{Options: options("shop", nil)}
				q.change(&c.Options)
				w, err := sqs.NewWorker(q.client, q.source, q.ledger, q.book, c)
				if err != nil {
					t.Fatal(err)
				}
				stop := run(t, w)
				eventually(t, "handled", func() bool { return q.book.count() == 1 })
				stop()
				restore()
				q.server.ExpireVisibility(q.names[0])
				if q.server.Counts(q.names[0]).Depth() != 1 {
					t.Fatal("it was deleted")
				}
				q.moved()
				o := options("shop", nil)
				q.change(&o)
				dst, err := replay.InPlace(q.book, &replay.InPlaceOptions{Options: o})
				if err != nil {
					t.Fatal(err)
				}
				report := q.replay(q.fromQueue(), dst, func(c *replay.Config) { c.StampKeys = stamps.Keys })
				if n := q.book.effects()["order-7"]; n != 1 || report.Succeeded != 1 {
					t.Errorf("handled %d times: %+v", n, report)
				}
			})
		}
	}
}

// One forged letter whose scope no ledger takes is refused, and the others of its batch go.
func TestScopeTooLong(t *testing.T) {
	q := newQueues(t, false)
	q.fail([]string{"good"})
	long := strings.Repeat("x", 5000)
	stamp := consumer.NewStamp(q.arn(q.names[0]), "bad", []byte("bad"))
	q.send(q.dlq, letterOf("bad", &stamp, sealedAs(q.arn(q.names[0]), long, "bad", ledger.KindExhausted)))
	report := q.replay(q.fromQueue(), q.home(), func(c *replay.Config) { c.Unknown = true })
	if report.Replayed != 1 || report.Refused != 1 {
		t.Errorf("%+v", report)
	}
}
