package sqstest_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// bench is a server on a manual clock with an SDK client that does not retry.
type bench struct {
	*testing.T
	srv    *sqstest.Server
	clock  *sqstest.ManualClock
	client *sqs.Client
}

func setUp(t *testing.T, options sqstest.Options) *bench {
	t.Helper()
	t.Parallel()
	clock := sqstest.NewManualClock(time.Time{})
	options.Clock = clock
	srv := sqstest.Start(t, &options)
	client := srv.Client(func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} })
	return &bench{T: t, srv: srv, clock: clock, client: client}
}

// queue creates a queue from attribute names and values in turn.
func (b *bench) queue(name string, attributes ...string) string {
	b.Helper()
	set := map[string]string{}
	for i := 0; i+1 < len(attributes); i += 2 {
		set[attributes[i]] = attributes[i+1]
	}
	url, err := b.srv.CreateQueue(name, set)
	b.must(err)
	return url
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// code wants an error of the service with this code.
func (b *bench) code(err error, want string) {
	b.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		b.Fatalf("got %v, want the service's error %s", err, want)
	}
	if api.ErrorCode() != want {
		b.Fatalf("got code %q (%s), want %q", api.ErrorCode(), api.ErrorMessage(), want)
	}
}

func (b *bench) send(url, body string, options ...func(*sqs.SendMessageInput)) *sqs.SendMessageOutput {
	b.Helper()
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}
	for _, o := range options {
		o(in)
	}
	out, err := b.client.SendMessage(b.Context(), in)
	b.must(err)
	return out
}

// inGroup sends to a FIFO group under a deduplication id.
func inGroup(group, dedup string) func(*sqs.SendMessageInput) {
	return func(in *sqs.SendMessageInput) {
		in.MessageGroupId = &group
		if dedup != "" {
			in.MessageDeduplicationId = &dedup
		}
	}
}

// receive is a short poll for up to ten messages with all their attributes.
func (b *bench) receive(url string, options ...func(*sqs.ReceiveMessageInput)) []types.Message {
	b.Helper()
	in := &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
	for _, o := range options {
		o(in)
	}
	out, err := b.client.ReceiveMessage(b.Context(), in)
	b.must(err)
	return out.Messages
}

func (b *bench) receiveOne(url string) types.Message {
	b.Helper()
	got := b.receive(url)
	if len(got) != 1 {
		b.Fatalf("received %v, want one message", bodies(got))
	}
	return got[0]
}

func (b *bench) delete(url string, m types.Message) error {
	_, err := b.client.DeleteMessage(b.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
	return err
}

func (b *bench) change(url string, m types.Message, seconds int32) error {
	_, err := b.client.ChangeMessageVisibility(b.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
	})
	return err
}

func bodies(messages []types.Message) []string {
	out := []string{}
	for _, m := range messages {
		out = append(out, aws.ToString(m.Body))
	}
	return out
}

func (b *bench) same(what string, got, want any) {
	b.Helper()
	if g, w := format(got), format(want); g != w {
		b.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

func format(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case *string:
		return strconv.Quote(aws.ToString(v))
	default:
		return fmt.Sprint(v)
	}
}

// until polls a condition that another goroutine makes true.
func (b *bench) until(what string, condition func() bool) {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); {
		if time.Now().After(deadline) {
			b.Fatalf("waited 10 s for: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
