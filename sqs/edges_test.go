package sqs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// begun is a worker that has begun and neither polls nor deletes.
func (s *site) begun(c *Config) *Worker {
	s.t.Helper()
	w := s.worker(nothing, c)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(s.t.Context()))
	w.stop, w.base = cancel, context.WithoutCancel(s.t.Context())
	if err := w.begin(ctx); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cancel(nil)
		if err := w.closeEngine(); err != nil {
			s.t.Error(err)
		}
	})
	return w
}

// TestArchiveHoldsTheLargestMessage: a ledger serves a queue whose largest message it can archive, to the byte.
func TestArchiveHoldsTheLargestMessage(t *testing.T) {
	s := newSite(t, "", 100)
	w := s.worker(nothing, nil)
	q, err := w.readQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for spare, accepted := range map[int]bool{0: true, -1: false} {
		q.maxBytes = s.ledger.Limits().Archive - traceBytes - groupBytes - spare
		if err := w.adopt(q); (err == nil) != accepted {
			t.Errorf("%d bytes to spare: %v, want it accepted: %v", spare, err, accepted)
		}
	}
}

// TestDeadLetterQueueIsAskedAgain: a dead-letter queue that does not answer for a moment is not taken for one that keeps nothing.
func TestDeadLetterQueueIsAskedAgain(t *testing.T) {
	for _, action := range []string{"GetQueueUrl", "GetQueueAttributes"} {
		t.Run(action, func(t *testing.T) {
			s := newSite(t, "", 100)
			w := s.worker(nothing, nil)
			s.srv.Inject(sqstest.Fault{Action: action, Queue: "dead-" + s.name, Status: 503, Times: 1})
			if q, err := w.readQueue(t.Context()); err == nil || !strings.Contains(err.Error(), "dead-letter queue") {
				t.Errorf("%+v, %v, want that its dead-letter queue does not answer", q, err)
			}
			if q, err := w.readQueue(t.Context()); err != nil || q.redrive.retention != 4*day || len(q.warnings) > 0 {
				t.Errorf("%+v, %v, want its retention", q, err)
			}
		})
	}
}

// terse is a compatible service that says nothing of its queues.
type terse struct{ API }

func (terse) GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("url")}, nil
}

func (terse) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return &sqs.GetQueueAttributesOutput{}, nil
}

// TestRetentionThatIsNotSaid: a dead-letter queue that says nothing of its retention keeps for as long as SQS may.
func TestRetentionThatIsNotSaid(t *testing.T) {
	t.Parallel()
	w := &Worker{client: terse{}}
	for _, arn := range []string{"arn:aws:sqs:r:1:dead", "dead"} {
		if keeps, err := w.deadRetention(t.Context(), arn); err != nil || keeps != maxRetention {
			t.Errorf("%s: %s, %v, want %s", arn, keeps, err, maxRetention)
		}
	}
}

// TestOtherNamesAreLookedFor: the ledger's last sweep knows who else consumes the queue.
func TestOtherNamesAreLookedFor(t *testing.T) {
	s := newSite(t, "", 100)
	w := s.begun(nil)
	o, err := s.ledger.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	entry := ledger.Entry{Key: ledger.Key{Scope: scopeOf(w.queue.arn, "another"), ID: []byte("m")}, Delivery: []byte("m"), Window: time.Hour}
	if _, err := o.Claim(t.Context(), []ledger.Entry{entry}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ledger.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	w.queue.warnings = nil
	w.lookForNames(t.Context())
	if got := strings.Join(w.queue.warnings, "; "); !strings.Contains(got, `under the name "another" too`) {
		t.Errorf("warnings %q", got)
	}
}

// TestADeleteIsRefusedSoOften: a delete that SQS refuses by itself is sent ten times; then the message is let come again.
func TestADeleteIsRefusedSoOften(t *testing.T) {
	s := newSite(t, "", 100)
	w := s.begun(nil)
	h := w.receive([]types.Message{raw("a", "1")}, w.table.now())[0]
	w.table.use(func(v *visibility.Table) { v.Ack(&h.Hold) })
	for n := 1; n <= 10; n++ {
		w.deleteAnswered(visibility.Deletion{Hold: &h.Hold, Handle: "1"}, "InternalError")
		if _, all := w.table.lanes(); (all == 1) != (n < 10) {
			t.Fatalf("after %d refusals it is kept: %v", n, all == 1)
		}
	}
	if deletes, _ := w.table.waiting(); deletes != 0 {
		t.Errorf("%d deletes wait", deletes)
	}
}

// TestDeletesEndWithTheirLoop: who waits for the loop has waited for its requests.
func TestDeletesEndWithTheirLoop(t *testing.T) {
	s := newSite(t, "", 100)
	w := s.begun(nil)
	s.send("m")
	out, err := s.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &s.url})
	if err != nil || len(out.Messages) != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	h := w.receive(out.Messages, w.table.now())[0]
	s.srv.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Delay: 300 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.deleteLoop(ctx) }()
	w.table.use(func(v *visibility.Table) { v.Ack(&h.Hold) })
	eventually(t, "the delete is on its way", func() bool { return w.table.deletes() == 0 })
	cancel()
	<-ended
	if deletes, _ := w.table.waiting(); deletes != 0 {
		t.Error("the loop has ended before its delete")
	}
}

// TestOnlyCharactersOfXML: what else there is in a text makes SQS refuse the whole message.
func TestOnlyCharactersOfXML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"\t": true, "\n": true, "\r": true, " ": true, "\ud7ff": true, "\ue000": true, "\ufffd": true, "\U00010000": true, "\U0010ffff": true,
		"\x00": false, "\x08": false, "\x0b": false, "\x0c": false, "\x0e": false, "\x1f": false, "\ufffe": false, "\uffff": false, "\xff": false,
	} {
		if sendable(text) != want {
			t.Errorf("%q is sendable: %v, want %v", text, !want, want)
		}
		if s := shown(text); (s == text) != want || !sendable(s) {
			t.Errorf("%q is shown as %q", text, s)
		}
	}
}

// TestHeadersThatAreAttributes: a header of a type that SQS knows, with a value, is an attribute; any other goes into the
// envelope.
func TestHeadersThatAreAttributes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		h    ledger.Header
		want bool
	}{
		{ledger.Header{Name: "n", Type: "String", Value: []byte("v")}, true},
		{ledger.Header{Name: "n", Type: "Number.int", Value: []byte("1")}, true},
		{ledger.Header{Name: "n", Type: "Binary", Value: []byte{0xff}}, true},
		{ledger.Header{Name: "n", Type: "Binary.own", Value: []byte{0}}, true},
		{ledger.Header{Name: "n", Type: "String", Value: []byte{0xff}}, false},
		{ledger.Header{Name: "n", Type: "String"}, false},
		{ledger.Header{Name: "n", Value: []byte("v")}, false},
		{ledger.Header{Name: "n", Type: "Set", Value: []byte("v")}, false},
		{ledger.Header{Name: "aws.n", Type: "String", Value: []byte("v")}, false},
	} {
		value, ok := attributeOf(&tt.h)
		if ok != tt.want {
			t.Errorf("%+v is an attribute: %v, want %v", tt.h, ok, tt.want)
		}
		if got := aws.ToString(value.StringValue) + string(value.BinaryValue); ok && (got != string(tt.h.Value) || aws.ToString(value.DataType) != tt.h.Type) {
			t.Errorf("%+v became %q of type %q", tt.h, got, aws.ToString(value.DataType))
		}
	}
}

// TestATraceHeaderHasAValue: an empty one is no system attribute, which SQS would refuse.
func TestATraceHeaderHasAValue(t *testing.T) {
	t.Parallel()
	for value, placed := range map[string]bool{"Root=1": true, "": false} {
		in := &sqs.SendMessageInput{MessageAttributes: map[string]types.MessageAttributeValue{}}
		rest := (&envelope{}).place(in, []ledger.Header{{Name: string(traceHeader), Value: []byte(value)}})
		if (len(in.MessageSystemAttributes) == 1) != placed || (len(rest) == 0) != placed {
			t.Errorf("%q: %v, and %v in the envelope", value, in.MessageSystemAttributes, rest)
		}
	}
}

// TestABodyThatCannotBeRestored: a dead letter whose body is not what its envelope says is an error, not another message.
func TestABodyThatCannotBeRestored(t *testing.T) {
	t.Parallel()
	for form, readable := range map[string]bool{"base64": false, "zip": false, "": true} {
		m := raw("a", "1")
		m.Body = aws.String("no base64!")
		m.MessageAttributes = map[string]types.MessageAttributeValue{
			EnvelopeName: text(fmt.Sprintf(`{"v":%d,"original-source":"arn:aws:sqs:r:1:q","original-id":"m","original-body":%q}`, envelopeVersion, form)),
		}
		if d, err := ParseDeadLetter(&m); (err == nil) != readable {
			t.Errorf("%q: %+v, %v", form, d, err)
		}
	}
}

// TestOutcomesAreCountedByName: of polls and of visibility changes.
func TestOutcomesAreCountedByName(t *testing.T) {
	s := newSite(t, "", 100)
	reader := sdkmetric.NewManualReader()
	c := quick()
	c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	w := s.begun(c)
	s.send("m")
	w.poll(1)
	w.pollFailed(1, &smithy.GenericAPIError{Code: "OverLimit"}, time.Now())
	w.pollFailed(1, errors.New("no answer"), time.Now())
	w.tel.visibility([visibility.Refused + 1]int64{visibility.Changed: 1, visibility.Failed: 2, visibility.Refused: 3})
	got := counters(t, reader)
	for name, want := range map[string]int64{
		"polls messages": 1, "polls empty": 0, "polls over_limit": 1, "polls error": 1,
		"visibility_changes changed": 1, "visibility_changes failed": 2, "visibility_changes expired": 3,
	} {
		if n := got["ackledger.sqs."+name]; n != want {
			t.Errorf("%s: %d, want %d", name, n, want)
		}
	}
}
