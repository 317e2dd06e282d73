package sqstest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

func TestFIFOGroupIsHeldWhileInFlight(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q.fifo")
	for i := range 4 {
		b.send(url, "a"+strconv.Itoa(i), inGroup("a", "a"+strconv.Itoa(i)))
	}
	two := func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = 2 }
	first := b.receive(url, two)
	b.same("several of a group, in order", bodies(first), []string{"a0", "a1"})
	b.same("group held", len(b.receive(url)), 0)
	b.send(url, "b0", inGroup("b", "b0"))
	b.same("another group goes on", bodies(b.receive(url)), []string{"b0"})
	b.must(b.change(url, first[0], 0))
	b.same("still held by a1", len(b.receive(url)), 0)
	b.must(b.delete(url, first[1]))
	again := b.receive(url, two)
	b.same("the returned one comes first", bodies(again), []string{"a0", "a2"})
	b.must(b.delete(url, again[0]))
	b.must(b.delete(url, again[1]))
	b.same("then the rest", bodies(b.receive(url)), []string{"a3"})
}

func TestFIFOSequenceNumbersGrow(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q.fifo")
	one := b.send(url, "x", inGroup("g", "1"))
	two := b.send(url, "x", inGroup("g", "2"))
	if len(*one.SequenceNumber) != 20 || *one.SequenceNumber >= *two.SequenceNumber {
		t.Fatalf("sequence numbers %s, %s: want 20 digits, growing", *one.SequenceNumber, *two.SequenceNumber)
	}
	m := b.receive(url)[0]
	b.same("sequence number", m.Attributes["SequenceNumber"], *one.SequenceNumber)
	b.same("group", m.Attributes["MessageGroupId"], "g")
	b.same("deduplication id", m.Attributes["MessageDeduplicationId"], "1")
}

func TestFIFODeduplicationWindow(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q.fifo")
	first := b.send(url, "x", inGroup("g", "id"))
	b.must(b.delete(url, b.receiveOne(url))) // the id outlives the message
	b.clock.Advance(5*time.Minute - time.Millisecond)
	second := b.send(url, "another body", inGroup("other", "id"))
	b.same("the original's id", second.MessageId, *first.MessageId)
	b.same("the original's number", second.SequenceNumber, *first.SequenceNumber)
	b.same("nothing delivered", b.srv.Queue("q.fifo").Depth(), 0)
	b.clock.Advance(time.Millisecond)
	third := b.send(url, "x", inGroup("g", "id"))
	b.same("delivered", b.receiveOne(url).MessageId, *third.MessageId)
}

func TestFIFODeduplicationByContentAndByGroup(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	content := b.queue("content.fifo", "ContentBasedDeduplication", "true")
	b.send(content, "same", inGroup("g", ""))
	b.send(content, "same", inGroup("h", ""))
	b.send(content, "same", inGroup("g", "explicit"))
	b.same("by content", b.srv.Queue("content.fifo").Depth(), 2)
	group := b.queue("group.fifo", "DeduplicationScope", "messageGroup", "FifoThroughputLimit", "perMessageGroupId")
	b.send(group, "x", inGroup("g", "id"))
	b.send(group, "x", inGroup("h", "id"))
	b.send(group, "x", inGroup("h", "id"))
	b.same("by group", b.srv.Queue("group.fifo").Depth(), 2)
}

func TestFIFOExpiredHandleIsRefused(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q.fifo")
	b.send(url, "x", inGroup("g", "1"))
	old := b.receiveOne(url)
	b.clock.Advance(30 * time.Second)
	b.code(b.delete(url, old), "InvalidParameterValue")
	b.code(b.change(url, old, 10), "InvalidParameterValue")
	newest := b.receiveOne(url)
	b.code(b.delete(url, old), "InvalidParameterValue")
	b.must(b.delete(url, newest))
	b.must(b.delete(url, newest))
	out, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{
		QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{{Id: aws.String("0"), ReceiptHandle: aws.String("none")}},
	})
	b.must(err)
	b.same("a batch names the error in its entry", out.Failed[0].Code, "ReceiptHandleIsInvalid")
}

func TestFIFOParameters(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q.fifo")
	send := func(option func(*sqs.SendMessageInput)) error {
		in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")}
		option(in)
		_, err := b.client.SendMessage(t.Context(), in)
		return err
	}
	b.code(send(func(in *sqs.SendMessageInput) { in.MessageDeduplicationId = aws.String("d") }), "MissingParameter")
	b.code(send(func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("g") }), "InvalidParameterValue")
	b.code(send(func(in *sqs.SendMessageInput) {
		inGroup("g", "d")(in)
		in.DelaySeconds = 1
	}), "InvalidParameterValue")
}

func TestFIFODelayHoldsTheGroupInOrder(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q.fifo", "DelaySeconds", "10")
	b.send(url, "1", inGroup("g", "1"))
	b.clock.Advance(5 * time.Second)
	b.send(url, "2", inGroup("g", "2"))
	b.same("delayed", len(b.receive(url)), 0)
	b.clock.Advance(5 * time.Second)
	b.same("first only", bodies(b.receive(url)), []string{"1"})
}

// A group whose in-flight head is dropped by retention goes on.
func TestFIFORetentionFreesTheGroup(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q.fifo", "MessageRetentionPeriod", "60", "VisibilityTimeout", "600")
	b.send(url, "1", inGroup("g", "1"))
	b.receiveOne(url)
	b.clock.Advance(30 * time.Second)
	b.send(url, "2", inGroup("g", "2"))
	b.same("held", len(b.receive(url)), 0)
	b.clock.Advance(30 * time.Second)
	b.same("free", bodies(b.receive(url)), []string{"2"})
}

// Siblings that are received again and again behind a failing head reach the
// dead-letter queue without having been handled: each receive counts.
func TestFIFOSiblingsCountEveryReceive(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	dead := b.queue("dead.fifo")
	url := b.queue("q.fifo", "RedrivePolicy", `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead.fifo","maxReceiveCount":"3"}`)
	for i := range 3 {
		b.send(url, strconv.Itoa(i), inGroup("g", strconv.Itoa(i)))
	}
	for range 3 {
		for _, m := range b.receive(url) {
			b.must(b.change(url, m, 0))
		}
	}
	b.same("source is empty", len(b.receive(url)), 0)
	b.same("all are dead letters", bodies(b.receive(dead)), []string{"0", "1", "2"})
}
