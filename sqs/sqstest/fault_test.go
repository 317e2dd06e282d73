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

func (b *bench) trySend(url string) error {
	_, err := b.client.SendMessage(b.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")})
	return err
}

func TestFaultCodes(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url, other := b.queue("q"), b.queue("other")
	b.srv.Inject(sqstest.Fault{Action: "SendMessage", Queue: "q", Code: sqstest.CodeThrottled, Skip: 1, Times: 2})
	b.must(b.trySend(url)) // skipped
	b.code(b.trySend(url), "ThrottlingException")
	b.must(b.trySend(other))
	b.code(b.trySend(url), "ThrottlingException")
	b.must(b.trySend(url))
	for status, code := range map[int]string{500: "InternalError", 503: "ServiceUnavailable"} {
		b.srv.Inject(sqstest.Fault{Status: status})
		b.code(b.trySend(url), code)
	}
	b.same("failed calls are counted and not performed", b.srv.Calls("SendMessage"), 7)
	b.same("depth", b.srv.Queue("q").Depth(), 2)
	remove := b.srv.Inject(sqstest.Fault{Code: sqstest.CodeOverLimit, Times: -1})
	for range 3 {
		b.code(b.trySend(url), "OverLimit")
	}
	remove()
	remove()
	b.must(b.trySend(url))
}

// The SDK's own retries see a throttled service as they see AWS.
func TestFaultIsRetriedByTheSDK(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	b.srv.Inject(sqstest.Fault{Action: "SendMessage", Code: sqstest.CodeThrottled, Times: 1})
	_, err := b.srv.Client().SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")})
	b.must(err)
	b.same("calls", b.srv.Calls("SendMessage"), 2)
}

func TestFaultDropsTheAnswerAfterTheEffect(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	b.srv.Inject(sqstest.Fault{Action: "SendMessage", Drop: true})
	if err := b.trySend(url); err == nil {
		t.Fatal("a cut connection answered")
	}
	b.same("sent all the same", b.srv.Queue("q").Visible, 1)
	b.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Drop: true})
	if _, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url}); err == nil {
		t.Fatal("a cut connection answered")
	}
	b.same("in flight with nobody", b.srv.Queue("q").InFlight, 1)
}

func TestFaultDelay(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	b.srv.Inject(sqstest.Fault{Action: "SendMessage", Delay: time.Minute})
	done := make(chan error, 1)
	go func() { done <- b.trySend(url) }()
	b.until("the call", func() bool { return b.srv.Calls("SendMessage") == 1 })
	b.until("the send, as time goes on", func() bool {
		b.clock.Advance(time.Minute)
		return b.srv.Queue("q").Visible == 1
	})
	b.must(<-done)
}

func TestFaultOfBatchEntries(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	odd := func(i int, _ string) bool { return i%2 == 1 }
	entries := func(n int) (out []types.SendMessageBatchRequestEntry) {
		for i := range n {
			out = append(out, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String("x")})
		}
		return out
	}
	b.srv.Inject(sqstest.Fault{Action: "SendMessageBatch", Entries: odd})
	sent, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: entries(4)})
	b.must(err)
	b.same("sent", len(sent.Successful), 2)
	b.same("not sent", len(sent.Failed), 2)
	b.same("code", sent.Failed[0].Code, "InternalError")
	b.same("whose fault", sent.Failed[0].SenderFault, false)
	b.same("depth", b.srv.Queue("q").Depth(), 2)

	var deletes []types.DeleteMessageBatchRequestEntry
	var changes []types.ChangeMessageVisibilityBatchRequestEntry
	for i, m := range b.receive(url) {
		id := aws.String(strconv.Itoa(i))
		deletes = append(deletes, types.DeleteMessageBatchRequestEntry{Id: id, ReceiptHandle: m.ReceiptHandle})
		changes = append(changes, types.ChangeMessageVisibilityBatchRequestEntry{Id: id, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0})
	}
	b.srv.Inject(sqstest.Fault{Entries: odd, Code: "ReceiptHandleIsInvalid", Times: 2})
	changed, err := b.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: changes})
	b.must(err)
	b.same("changed", *changed.Successful[0].Id, "0")
	b.same("not changed", *changed.Failed[0].Id, "1")
	b.same("visible", b.srv.Queue("q").Visible, 1)
	deleted, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: deletes})
	b.must(err)
	b.same("not deleted", *deleted.Failed[0].Code, "ReceiptHandleIsInvalid")
	b.same("whose fault", deleted.Failed[0].SenderFault, true)
	b.same("depth", b.srv.Queue("q").Depth(), 1)
}

func TestFaultDuplicate(t *testing.T) {
	b := setUp(t, sqstest.Options{})
	url := b.queue("q")
	b.send(url, "x")
	b.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Duplicate: true})
	got := b.receive(url)
	b.same("copies", bodies(got), []string{"x", "x"})
	b.same("one id", *got[0].MessageId, *got[1].MessageId)
	if *got[0].ReceiptHandle == *got[1].ReceiptHandle {
		t.Fatal("both copies have one handle")
	}
	b.must(b.delete(url, got[1]))
	b.same("depth", b.srv.Queue("q").Depth(), 0)
}

func TestObserve(t *testing.T) {
	calls := make(chan sqstest.Call, 100)
	b := setUp(t, sqstest.Options{Observe: func(c sqstest.Call) { calls <- c }})
	url := b.queue("q")
	sent := b.send(url, "x")
	m := b.receiveOne(url)
	b.must(b.change(url, m, 7))
	b.code(b.change(url, m, 50000), "InvalidParameterValue")
	want := []sqstest.Call{
		{Action: "SendMessage", Queue: "q", Entries: []sqstest.CallEntry{{MessageID: *sent.MessageId}}},
		{Action: "ReceiveMessage", Queue: "q", Entries: []sqstest.CallEntry{{MessageID: *m.MessageId, ReceiptHandle: *m.ReceiptHandle}}},
		{Action: "ChangeMessageVisibility", Queue: "q", Entries: []sqstest.CallEntry{{
			MessageID: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, VisibilityTimeout: 7,
		}}},
		{Action: "ChangeMessageVisibility", Queue: "q", Code: "InvalidParameterValue", Entries: []sqstest.CallEntry{{
			ReceiptHandle: *m.ReceiptHandle, VisibilityTimeout: 50000, Code: "InvalidParameterValue",
		}}},
	}
	for _, w := range want {
		b.same("call", <-calls, w)
	}
}
