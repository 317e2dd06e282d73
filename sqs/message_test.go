package sqs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

func headerText(headers []ledger.Header) string {
	var b strings.Builder
	for _, h := range headers {
		fmt.Fprintf(&b, "%s (%s) %q; ", h.Name, h.Type, h.Value)
	}
	return b.String()
}

func TestMessageAsHandlersSeeItAndAsItIsArchived(t *testing.T) {
	s := newSite(t, ".fifo", 100)
	body := strings.Repeat("ü\t{\"<&>", 1000)
	out, err := s.client.SendMessage(t.Context(), &awssqs.SendMessageInput{
		QueueUrl: &s.url, MessageBody: &body, MessageGroupId: aws.String("a-group"), MessageDeduplicationId: aws.String("d"),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"z.last_one-": {DataType: aws.String("String"), StringValue: aws.String("zwölf")},
			"count":       {DataType: aws.String("Number.int"), StringValue: aws.String("-7")},
			"picture":     {DataType: aws.String("Binary.gif"), BinaryValue: []byte{0, 255, 128}},
		},
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-2-3")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got consumer.Message
	r := s.start(func(_ context.Context, m *consumer.Message) error {
		got = *m
		got.Body, got.Headers = append([]byte(nil), m.Body...), append([]consumer.Header(nil), m.Headers...)
		for i := range m.Headers {
			got.Headers[i].Value = append([]byte(nil), m.Headers[i].Value...)
			for j := range m.Headers[i].Value {
				m.Headers[i].Value[j] = '!' // a handler that scribbles
			}
		}
		clear(m.Body)
		m.ID, m.Group = "scribble", "scribble"
		return consumer.Terminal(errors.New("bad"))
	}, nil)
	s.empty()
	r.end()
	received := 0 // more than once when a receive's answer is lost, which a busy machine's HTTP client does now and then
	for _, c := range s.seen("ReceiveMessage") {
		received += len(c.Entries)
	}
	const want = `count (Number.int) "-7"; picture (Binary.gif) "\x00\xff\x80"; z.last_one- (String) "zwölf"; AWSTraceHeader () "Root=1-2-3"; `
	if h := headerText(got.Headers); h != want {
		t.Errorf("headers %s, want %s", h, want)
	}
	if got.ID != *out.MessageId || got.Group != "a-group" || string(got.Body) != body || got.Source != s.arn(s.name) ||
		got.Received != received || got.Attempt != 1 || time.Since(got.SentAt) > time.Minute || got.Topic != "" || got.Key != nil {
		t.Errorf("message %+v", got)
	}
	row := s.record(r.Worker, *out.MessageId)
	if len(row.Archived) != 1 {
		t.Fatalf("%d archived deliveries, want 1", len(row.Archived))
	}
	a := row.Archived[0]
	if string(a.Body) != body || headerText(a.Headers) != want || string(a.Delivery) != *out.MessageId || a.Group != "a-group" {
		t.Errorf("archive of %d bytes, %s, %q, %q", len(a.Body), headerText(a.Headers), a.Delivery, a.Group)
	}
}

func TestTheLargestBodyIsArchivedWhole(t *testing.T) {
	s := newSite(t, "", 100)
	body := strings.Repeat("x", 1<<20)
	ids := s.send(body)
	c := quick()
	c.VisibilityTimeout, c.WaitTime = time.Minute, time.Second // so large an answer takes a busy machine seconds
	r := s.start(func(context.Context, *consumer.Message) error { return consumer.Terminal(errors.New("bad")) }, c)
	s.empty()
	r.end()
	if row := s.record(r.Worker, ids[0]); len(row.Archived) != 1 || string(row.Archived[0].Body) != body {
		t.Errorf("%d archived deliveries, want 1 of 1 MiB", len(row.Archived))
	}
}

func TestMessagesWithoutAttributes(t *testing.T) {
	m, _ := newMessage(&types.Message{}, "source")
	if m.Body != nil || m.Headers != nil || !m.SentAt.IsZero() || m.Received != 0 || m.ID != "" {
		t.Errorf("%+v", m)
	}
	m, _ = newMessage(&types.Message{Body: aws.String(""), Attributes: map[string]string{
		"SentTimestamp": "soon", "ApproximateReceiveCount": "many",
	}}, "source")
	if m.Body == nil || !m.SentAt.IsZero() || m.Received != 0 {
		t.Errorf("%+v", m)
	}
}

// A copy that was re-sent with the stamp of a message of this queue is that message; with somebody else's stamp it is
// itself.
func TestStampedCopiesMeetTheirMessage(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	ids := s.send("m")
	r := s.start(b.handle, nil)
	s.empty()
	resend := func(stamp consumer.Stamp) {
		t.Helper()
		_, err := s.client.SendMessage(t.Context(), &awssqs.SendMessageInput{
			QueueUrl: &s.url, MessageBody: aws.String("m"), MessageAttributes: map[string]types.MessageAttributeValue{
				consumer.StampName: {DataType: aws.String("String"), StringValue: aws.String(stamp.String())},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.empty()
	}
	resend(consumer.NewStamp(s.arn(s.name), ids[0], []byte("m")))
	if n := b.count("m"); n != 1 {
		t.Errorf("a copy with the message's stamp: %d runs, want 1", n)
	}
	resend(consumer.NewStamp(s.arn(s.name), ids[0], []byte("another body")))
	resend(consumer.NewStamp("another queue", ids[0], []byte("m")))
	if n := b.count("m"); n != 3 {
		t.Errorf("copies with stamps that do not count: %d runs, want 3", n)
	}
	r.end()
}
