package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// payments adds the queue of another team, whose workers have the same ledger.
func (q *queues) payments() (url, arn string) {
	url, arn, _ = q.payment(&book{})
	return url, arn
}

// payment adds the queue of another team, with one payment that its worker has come to an end with.
func (q *queues) payment(h consumer.Handler) (url, arn, id string) {
	q.t.Helper()
	url, err := q.server.CreateQueue("payments", nil)
	if err != nil {
		q.t.Fatal(err)
	}
	out, err := q.client.SendMessage(q.t.Context(), &awssqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("a payment")})
	if err != nil {
		q.t.Fatal(err)
	}
	w, err := sqs.NewWorker(q.client, url, q.ledger, h, &sqs.Config{Options: options("shop", nil)})
	if err != nil {
		q.t.Fatal(err)
	}
	stop := run(q.t, w)
	eventually(q.t, "the payment is handled", func() bool { return q.server.Counts("payments").Depth() == 0 })
	stop()
	return url, q.arn("payments"), aws.ToString(out.MessageId)
}

// forged is a letter that says that it came from a queue, with a stamp that fits, and perhaps with an envelope.
func forged(source, body string, envelope bool, change ...func(*consumer.Stamp)) awssqs.SendMessageInput {
	stamp := consumer.NewStamp(source, "forged "+body, []byte(body))
	for _, f := range change {
		f(&stamp)
	}
	values := map[string]string{consumer.StampName: stamp.String()}
	if envelope {
		values[sqs.EnvelopeName] = envelopeOf(source)
	}
	return awssqs.SendMessageInput{MessageBody: &body, MessageAttributes: attributes(values)}
}

func envelopeOf(source string) string {
	return sealedAs(source, "shop", "forged", ledger.KindExhausted)
}

// sealedAs is what a dead letter of that kind says of itself.
func sealedAs(source, name, id string, kind ledger.FailureKind) string {
	e, err := json.Marshal(map[string]any{
		"v": 1, "original-source": source, "original-id": id, "original-group": "", "consumer": name, "kind": kind, "attempts": 3,
	})
	if err != nil {
		panic(err)
	}
	return string(e)
}

// home is a target that sends wherever letters came from.
func (q *queues) home() replay.Target {
	q.t.Helper()
	target, err := sqs.NewReplayTarget(q.client)
	if err != nil {
		q.t.Fatal(err)
	}
	return target
}

// A producer of orders put an envelope on its message that named the queue of another team. SQS moved the message to the
// dead-letter queue of orders, and a replay wrote it to the other queue.
func TestPitfall129_EnvelopeAgainstTheQueueThatSQSNames(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"original"}) // its scope is known
	_, payments := q.payments()
	q.send(q.source, forged(payments, "pay the attacker", true))
	q.moved()
	report := q.replay(q.fromQueue(), q.home())
	if got := q.server.Counts("payments").Depth(); got != 0 {
		t.Fatalf("%d messages are in the other team's queue: %+v", got, report)
	}
	if report.Replayed != 2 || report.Targets[q.arn(q.names[0])] != 2 {
		t.Fatalf("it did not go back to where it came from: %+v", report)
	}
	q.worker()
	eventually(t, "it is handled as the message that it is", func() bool { return q.book.count() == 2 })
	q.book.eachOnce(t, []string{"original", "pay the attacker"})
}

// Whoever may write to a dead-letter queue put letters there that named another team's queue: a replay wrote them there.
// Now a letter that the ledger does not know, and that SQS has not moved, needs to be asked for, and its queue to be named.
func TestPitfall130_LetterThatNobodyVouchesFor(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"original"})
	paymentsURL, payments := q.payments()
	orders := q.arn(q.names[0])
	ofKey := func(s *consumer.Stamp) {
		*s = s.Sign(consumer.StampKey{ID: "mine", Secret: []byte(strings.Repeat("k", 32))})
	}
	all := []awssqs.SendMessageInput{
		forged(payments, "with envelope", true), forged(payments, "by its stamp", false), forged(orders, "into orders", true),
		forged(payments, "signed", true, ofKey), forged(strings.Replace(payments, "payments", "nobody", 1), "elsewhere", true),
		forged(payments, "with a token", true, func(s *consumer.Stamp) { s.Token = 7 }),
	}
	for _, in := range all {
		q.send(q.dlq, in)
	}
	none := func(what string, report replay.Report) {
		t.Helper()
		if n := q.server.Counts("payments").Depth(); n != 0 || report.Refused != int64(len(all)) || report.Targets[payments] != 0 {
			t.Errorf("%s: %d in the other team's queue: %+v", what, n, report)
		}
		q.server.ExpireVisibility(q.names[1])
	}
	dry := func(c *replay.Config) { c.DryRun, c.By = true, ledger.By{} }
	report := q.replay(q.fromQueue(), q.home(), dry)
	none("dry", report)
	if report.Reasons[replay.Unvouched] != 4 || report.Reasons[replay.Forgotten] != 1 || report.Targets[orders] != 1 {
		t.Errorf("dry: %+v", report)
	}
	none("in place", q.replay(q.fromQueue(), inPlace(t, "shop", &book{}), dry))
	none("in place", q.replay(q.fromQueue(), inPlace(t, "shop", q.book)))
	q.book.eachOnce(t, []string{"original"})

	// Asked for, a letter goes to a queue that redrives here, or that is named: to no other.
	unknown := func(c *replay.Config) { c.Unknown, c.DryRun = true, true }
	report = q.replay(q.fromQueue(), q.home(), unknown)
	if report.Targets[payments] != 0 || report.Targets[orders] != 1 {
		t.Errorf("unknown: %+v", report)
	}
	q.server.ExpireVisibility(q.names[1])
	named, err := sqs.NewReplayTarget(q.client, paymentsURL)
	if err != nil {
		t.Fatal(err)
	}
	if report = q.replay(q.fromQueue(), named, unknown); report.Targets[payments] != 3 {
		t.Errorf("unknown, to the queue by name: %+v", report)
	}
	q.server.ExpireVisibility(q.names[1])
	report = q.replay(q.fromQueue(), q.home(), unknown, func(c *replay.Config) { c.Origin = payments })
	if report.Targets[payments] != 3 {
		t.Errorf("unknown, with its origin: %+v", report)
	}
}

// What is no copy of what it says it is is sent on request: to its own queue, or to one that is named. One that a worker
// published is known by the archive.
func TestForgedMismatchesStayWithTheirQueue(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"original"})
	_, payments := q.payments()
	q.send(q.dlq, awssqs.SendMessageInput{
		MessageBody: aws.String("no stamp"), MessageAttributes: attributes(map[string]string{sqs.EnvelopeName: envelopeOf(payments)}),
	})
	q.send(q.dlq, awssqs.SendMessageInput{
		MessageBody: aws.String("no stamp, of orders"), MessageAttributes: attributes(map[string]string{sqs.EnvelopeName: envelopeOf(q.arn(q.names[0]))}),
	})
	report := q.replay(q.fromQueue(), q.home(), func(c *replay.Config) { c.Mismatched, c.Unknown = true, true })
	if n := q.server.Counts("payments").Depth(); n != 0 || report.Refused != 1 || report.Replayed != 2 {
		t.Errorf("%d in the other team's queue: %+v", n, report)
	}
}

// A letter of a dead-letter topic that names another topic, or another cluster, goes nowhere without being asked for.
func TestForgedTopic(t *testing.T) {
	t.Parallel()
	s := newTopics(t)
	s.fail(s.records([]string{"original"}))
	admin := kadm.NewClient(s.client)
	if _, err := admin.CreateTopics(t.Context(), 1, 1, nil, "payments", "payments-dead"); err != nil {
		t.Fatal(err)
	}
	meta, err := admin.BrokerMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.produce(&kgo.Record{Topic: "payments", Value: []byte("a payment")})
	others := &topics{t: t, seeds: s.seeds, client: s.client, source: "payments", dlq: "payments-dead", ledger: s.ledger, book: &book{}}
	others.book.breakAll()
	stop := others.workerOf(s.group)
	payments := kafka.SourceName(meta.Cluster, "payments")
	eventually(t, "the ledger knows the other topic", func() bool {
		scopes, err := s.ledger.Scopes(t.Context())
		return err == nil && strings.Contains(fmt.Sprint(scopes), "/payments/")
	})
	stop()
	before := s.depth("payments")
	for i, source := range []string{payments, kafka.SourceName("another-cluster", "payments"), "arn:aws:sqs:us-east-1:000000000000:payments"} {
		body := fmt.Appendf(nil, "forged %d", i)
		stamp := consumer.NewStamp(source, fmt.Sprint("forged ", i), body)
		stamp.Group = s.group
		s.produce(&kgo.Record{Topic: s.dlq, Value: body, Headers: []kgo.RecordHeader{{Key: consumer.StampName, Value: []byte(stamp.String())}}})
	}
	open, err := kafka.NewReplayTarget(s.client, nil)
	if err != nil {
		t.Fatal(err)
	}
	report := s.replay(s.fromTopic(), open)
	if report.Replayed != 1 || report.Refused != 3 || report.Reasons[replay.Unvouched] != 1 || s.depth("payments") != before {
		t.Errorf("%+v", report)
	}
	report = s.replay(s.fromTopic(), open, func(c *replay.Config) { c.Unknown = true })
	if report.Targets[payments] != 0 || s.depth("payments") != before {
		t.Errorf("unknown: %+v", report)
	}
	named, err := kafka.NewReplayTarget(s.client, &kafka.ReplayTargetOptions{Topics: []string{"payments"}})
	if err != nil {
		t.Fatal(err)
	}
	if report = s.replay(s.fromTopic(), named, func(c *replay.Config) { c.Unknown = true }); report.Targets[payments] != 1 || s.depth("payments") != before+1 {
		t.Errorf("unknown, to the topic by name: %+v", report)
	}
}

// astray is a ledger in which somebody has changed where archived messages came from.
type astray struct {
	*memory.Ledger
	to string
}

func (a astray) DeadLetters(ctx context.Context, f ledger.Filter) iter.Seq2[ledger.DeadLetter, error] {
	return func(yield func(ledger.DeadLetter, error) bool) {
		for d, err := range a.Ledger.DeadLetters(ctx, f) {
			if d.Source = a.to; !yield(d, err) {
				return
			}
		}
	}
}

// An archive record goes to the queue of its scope, and to no other that it names.
func TestArchiveRecordOfAnotherSource(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail([]string{"original"})
	_, payments := q.payments()
	report := replayAll(t, astray{q.ledger, payments}, replay.Archive(q.ledger), q.home())
	if report.Replayed != 1 || report.Targets[q.arn(q.names[0])] != 1 {
		t.Fatalf("as it is: %+v", report)
	}
	for name, target := range map[string]replay.Target{"sent": q.home(), "in place": inPlace(t, "shop", q.book)} {
		l := astray{q.ledger, payments}
		report = replayAll(t, l, replay.Archive(l), target)
		if report.Refused != 1 || report.Reasons[replay.Astray] != 1 || q.server.Counts("payments").Depth() != 0 || q.book.count() != 0 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// A run of letters of two queues has a line for each, for people and for programs, and sends what a dry run says.
func TestLineForEachTarget(t *testing.T) {
	t.Parallel()
	q := newQueues(t, false)
	q.fail(numbered(3))
	orders, names, source := q.arn(q.names[0]), q.names, q.source
	returns, err := q.server.CreateQueue("returns", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.source, q.names[0] = returns, "returns"
	q.send(returns, awssqs.SendMessageInput{MessageBody: aws.String("a return")})
	q.book.breakAll()
	stop := q.worker()
	eventually(t, "the return is a dead letter, too", func() bool { return q.server.Counts(names[1]).Depth() == 4 && q.server.Counts("returns").Depth() == 0 })
	stop()
	q.source, q.names = source, names
	want := map[string]int64{orders: 3, q.arn("returns"): 1}
	for _, dry := range []bool{true, false} {
		report := q.replay(q.fromQueue(), q.home(), func(c *replay.Config) { c.DryRun = dry })
		if !maps.Equal(report.Targets, want) {
			t.Errorf("dry run %v: %v", dry, report.Targets)
		}
		line, err := json.Marshal(report)
		if err != nil || !strings.Contains(string(line), fmt.Sprintf(`"targets":{%q:3,%q:1}`, orders, q.arn("returns"))) {
			t.Errorf("%s, %v", line, err)
		}
		if text := report.Text(); !strings.Contains(text, "      3 to "+orders+"\n") || !strings.Contains(text, "      1 to "+q.arn("returns")+"\n") {
			t.Errorf("%s", text)
		}
		q.server.ExpireVisibility(q.names[1])
	}
	if got := q.server.Counts("returns").Depth(); got != 1 || q.server.Counts("orders").Depth() != 3 {
		t.Errorf("%d returns", got)
	}
}
