package sqs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

const testARN = "arn:aws:sqs:us-east-1:000000000000:orders"

// letter is a dead letter of a message of an SQS queue.
func letter(body string, headers ...ledger.Header) *consumer.DeadLetter {
	stamp := consumer.NewStamp(testARN, "order-1", []byte(body))
	stamp.Token = 7
	return &consumer.DeadLetter{
		Message: consumer.Message{
			ID: "order-1", Source: testARN, Body: []byte(body), Headers: headers, SentAt: time.UnixMilli(1_700_000_000_123), Attempt: 10,
		},
		Delivery: []byte("delivery-1"), Stamp: &stamp, Kind: ledger.KindExhausted, Class: ledger.KindError,
		Error: "connection refused", Consumer: "billing", FailedAt: time.UnixMilli(1_700_000_100_456),
	}
}

// received is a sent message as SQS delivers it.
func received(in *sqs.SendMessageInput) *types.Message {
	m := &types.Message{
		MessageId: aws.String("new-id"), Body: in.MessageBody, MessageAttributes: in.MessageAttributes,
		Attributes: map[string]string{"SentTimestamp": "1700000200000", "ApproximateReceiveCount": "1"},
	}
	if v, ok := in.MessageSystemAttributes[string(traceHeader)]; ok {
		m.Attributes[string(traceHeader)] = *v.StringValue
	}
	if in.MessageGroupId != nil {
		m.Attributes["MessageGroupId"] = *in.MessageGroupId
	}
	return m
}

// checkSendable says whether SQS would take the message.
func checkSendable(t *testing.T, in *sqs.SendMessageInput) {
	t.Helper()
	if n := len(in.MessageAttributes); n > maxAttributes {
		t.Fatalf("%d attributes", n)
	}
	if *in.MessageBody == "" || !sendable(*in.MessageBody) || sizeOf(in) > maxMessage {
		t.Fatalf("body %.100q, size %d", *in.MessageBody, sizeOf(in))
	}
	for name, v := range in.MessageAttributes {
		if !attributeName(name) || aws.ToString(v.StringValue) == "" && len(v.BinaryValue) == 0 || !sendable(aws.ToString(v.StringValue)) {
			t.Fatalf("attribute %q: %v", name, v)
		}
	}
	for _, id := range []*string{in.MessageGroupId, in.MessageDeduplicationId} {
		if id != nil && !isGroup(*id) {
			t.Fatalf("group or deduplication id %q", *id)
		}
	}
}

func randomText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range r.IntN(n) {
		b.WriteRune([]rune("abcXYZ019._- \t\n<&>\"é世\U0001F600\u0085")[r.IntN(21)])
	}
	return b.String()
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, r.IntN(n))
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	if len(b) == 0 && r.IntN(2) == 0 {
		return nil
	}
	return b
}

// randomOfSQS is a message as a worker for SQS gets it: up to ten attributes, by name, and perhaps the trace header.
func randomOfSQS(r *rand.Rand) consumer.Message {
	m := consumer.Message{Source: testARN, ID: randomText(r, 40) + "i", Body: []byte(randomText(r, 200) + "b"), SentAt: time.UnixMilli(r.Int64N(1e13) + 1)}
	for i := range r.IntN(maxAttributes + 1) {
		h := ledger.Header{Name: fmt.Sprintf("name%d.%c", i, 'a'+rune(r.IntN(26)))}
		switch r.IntN(3) {
		case 0:
			h.Type, h.Value = "String", []byte(randomText(r, 30)+"v")
		case 1:
			h.Type, h.Value = "Number.int", []byte("-12")
		case 2:
			h.Type, h.Value = "Binary.png", append(randomBytes(r, 30), 0)
		}
		m.Headers = append(m.Headers, h)
	}
	if r.IntN(3) == 0 {
		m.Headers = append(m.Headers, ledger.Header{Name: "AWSTraceHeader", Value: []byte("Root=1-5759e988-bd862e3fe1be46a994272793")})
	}
	if r.IntN(3) == 0 {
		m.Group = "group-" + fmt.Sprint(r.IntN(9))
	}
	return m
}

// randomOfKafka is a record: any bytes everywhere, names that repeat.
func randomOfKafka(r *rand.Rand) consumer.Message {
	m := consumer.Message{
		Source: "cluster/topic", Topic: "topic", Partition: r.Int32N(100), Offset: r.Int64N(ledger.MaxOffset), ID: "topic-1-2",
		Key: randomBytes(r, 10), Body: randomBytes(r, 200), SentAt: time.UnixMilli(r.Int64N(1e13) - 1e12),
	}
	for range r.IntN(20) {
		names := []string{"a", "a", "b", "AWSTraceHeader", "traceparent", "\xff\x00", "", "AWS.x"}
		m.Headers = append(m.Headers, ledger.Header{Name: names[r.IntN(len(names))], Value: randomBytes(r, 20)})
	}
	return m
}

// Whatever failed, what is read back of the copy is what was delivered: body, attributes or headers in their order, group,
// key, times.
func TestDeadLetterSurvivesTheQueue(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := letter("")
		if d.Message = randomOfSQS(r); seed%2 == 0 {
			d.Message = randomOfKafka(r)
		}
		d.Message.Attempt = r.IntN(20)
		stamp := consumer.NewStamp(d.Message.Source, d.Message.ID, d.Message.Body)
		stamp.Token, d.Stamp = uint64(r.IntN(100)), &stamp
		d.Error = consumer.DeadLetterError(string(randomBytes(r, 3000)), d.Message.Body)
		fifo := r.IntN(2) == 0
		in, ok, err := seal(d, whole, fifo)
		if err != nil || !ok {
			t.Fatalf("seed %d: %v, %v", seed, ok, err)
		}
		(&DeadLetterQueue{url: "q", fifo: fifo}).address(in, d)
		checkSendable(t, in)
		got, err := ParseDeadLetter(received(in))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := *d
		want.Error = shown(d.Error)
		if !reflect.DeepEqual(got, &want) {
			t.Fatalf("seed %d:\ngot  %+v\nwant %+v", seed, got, &want)
		}
	}
}

// A message with ten attributes of its own has no room for the stamp and the envelope: two of its own go into the latter.
func TestDeadLetterWithTenAttributes(t *testing.T) {
	var headers []ledger.Header
	for i := range maxAttributes {
		headers = append(headers, ledger.Header{Name: fmt.Sprint("a", i), Type: "String", Value: []byte("v")})
	}
	d := letter("body", headers...)
	in, _, err := seal(d, whole, false)
	if err != nil || len(in.MessageAttributes) != maxAttributes {
		t.Fatalf("%v, %d attributes", err, len(in.MessageAttributes))
	}
	got, err := ParseDeadLetter(received(in))
	if err != nil || !reflect.DeepEqual(got.Message.Headers, headers) {
		t.Errorf("%v, %v", err, got)
	}
	if _, err := SourceInput(got, "http://localhost/0/orders"); !errors.Is(err, ErrNoRoom) {
		t.Errorf("sent back to the source without its stamp: %v", err)
	}
	got.Message.Headers = got.Message.Headers[:9]
	back, err := SourceInput(got, "http://localhost/0/orders")
	if err != nil || len(back.MessageAttributes) != 10 || back.MessageGroupId != nil {
		t.Errorf("%v, %v", err, back)
	}
}

// fakeQueue answers SendMessage, and keeps what it took.
type fakeQueue struct {
	limit int // bytes; 0: SQS's
	err   error
	sent  []*sqs.SendMessageInput
	asked int
}

func (f *fakeQueue) SendMessage(_ context.Context, in *sqs.SendMessageInput, _ ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	f.asked++
	if f.limit > 0 && sizeOf(in) > f.limit {
		return nil, &smithy.GenericAPIError{Code: "InvalidParameterValue", Message: "Message must be shorter"}
	}
	if f.err != nil {
		return nil, f.err
	}
	f.sent = append(f.sent, in)
	return &sqs.SendMessageOutput{}, nil
}

func (f *fakeQueue) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return &sqs.GetQueueAttributesOutput{Attributes: map[string]string{"QueueArn": testARN}}, f.err
}

func deadQueue(t *testing.T, f *fakeQueue, url string) *DeadLetterQueue {
	t.Helper()
	q, err := NewDeadLetterQueue(f, url)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A message of SQS's largest size has no room for what we add: it goes with as much of it as fits, and always can be read
// back; one without any room is the archive's.
func TestDeadLetterThatIsTooLarge(t *testing.T) {
	for _, c := range []struct {
		name  string
		spare int
		sent  bool
		text  bool
	}{
		{"all fits", 2000, true, true},
		{"without the error's text", 1000, true, false},
		{"the stamp alone", 200, true, false},
		{"no room", 10, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeQueue{}
			d := letter(strings.Repeat("x", maxMessage-c.spare))
			d.Error = strings.Repeat("e", 900)
			err := deadQueue(t, f, "http://localhost/0/dead").Publish(t.Context(), d)
			if !c.sent {
				if !consumer.IsTerminal(err) || f.asked != 0 {
					t.Errorf("%v, asked %d times", err, f.asked)
				}
				return
			}
			if err != nil || len(f.sent) != 1 {
				t.Fatalf("%v, %d sent", err, len(f.sent))
			}
			checkSendable(t, f.sent[0])
			got, err := ParseDeadLetter(received(f.sent[0]))
			if err != nil || !bytes.Equal(got.Message.Body, d.Message.Body) || !reflect.DeepEqual(got.Stamp, d.Stamp) ||
				got.Message.Source != testARN || got.Message.ID != "order-1" || (got.Error != "") != c.text {
				t.Errorf("%v: %.300v", err, got)
			}
		})
	}
}

// The queue's own limit is lower than SQS's: what it refuses is sent with less of ours.
func TestDeadLetterThatTheQueueRefuses(t *testing.T) {
	d := letter(strings.Repeat("x", 3000))
	d.Error = strings.Repeat("e", 1000)
	f := &fakeQueue{limit: 4200}
	if err := deadQueue(t, f, "u").Publish(t.Context(), d); err != nil || f.asked != 2 {
		t.Errorf("%v after %d calls", err, f.asked)
	}
	f = &fakeQueue{limit: 100}
	if err := deadQueue(t, f, "u").Publish(t.Context(), d); !consumer.IsTerminal(err) || f.asked != 3 {
		t.Errorf("%v after %d calls", err, f.asked)
	}
	f = &fakeQueue{err: errors.New("connection reset")}
	if err := deadQueue(t, f, "u").Publish(t.Context(), d); err == nil || consumer.IsTerminal(err) || f.asked != 1 {
		t.Errorf("%v after %d calls", err, f.asked)
	}
}

// A publish whose answer was lost is repeated: it is one message of a FIFO queue; the message's next failure is another one.
func TestDeadLetterDeduplication(t *testing.T) {
	f := &fakeQueue{}
	q := deadQueue(t, f, "http://localhost/0/dead.fifo")
	d, later, other := letter("body"), letter("body"), letter("body")
	d.Message.Group, later.Message.Group = "alice", "alice"
	later.Stamp.Token++
	other.Delivery = []byte("delivery-2")
	for _, x := range []*consumer.DeadLetter{d, d, later, other} {
		if err := q.Publish(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		checkSendable(t, f.sent[len(f.sent)-1])
	}
	first, again, next, third := f.sent[0], f.sent[1], f.sent[2], f.sent[3]
	if *first.MessageGroupId != "alice" || *first.MessageDeduplicationId != *again.MessageDeduplicationId {
		t.Errorf("%v, %v", first, again)
	}
	if *next.MessageDeduplicationId == *first.MessageDeduplicationId || *third.MessageDeduplicationId == *first.MessageDeduplicationId {
		t.Error("another failure has the same deduplication id")
	}
	back, err := SourceInput(d, "http://localhost/0/orders.fifo")
	if err != nil || *back.MessageGroupId != "alice" || *back.MessageDeduplicationId == *first.MessageDeduplicationId {
		t.Errorf("%v, %v", err, back)
	}
}

// What SQS moved by itself keeps its MessageId, and names its source; a stamp of another body or source is none.
func TestParseDeadLetterOfOthers(t *testing.T) {
	moved := func(stamp *consumer.Stamp) *types.Message {
		m := &types.Message{
			MessageId: aws.String("m-1"), Body: aws.String("body"), MessageAttributes: map[string]types.MessageAttributeValue{"a": text("b")},
			Attributes: map[string]string{deadSource: testARN, "ApproximateReceiveCount": "4"},
		}
		if stamp != nil {
			m.MessageAttributes[consumer.StampName] = text(stamp.String())
		}
		return m
	}
	good, forged, foreign := consumer.NewStamp(testARN, "order-1", []byte("body")), consumer.NewStamp(testARN, "order-1", []byte("other")),
		consumer.NewStamp(testARN+"2", "order-1", []byte("body"))
	for name, c := range map[string]struct {
		stamp *consumer.Stamp
		id    string
		kept  bool
	}{
		"none": {nil, "m-1", false}, "the producer's": {&good, "order-1", true}, "of another body": {&forged, "m-1", false},
		"of another queue": {&foreign, "m-1", false},
	} {
		d, err := ParseDeadLetter(moved(c.stamp))
		if err != nil || d.Message.ID != c.id || (d.Stamp != nil) != c.kept || d.Message.Source != testARN || d.Kind != "" ||
			string(d.Delivery) != "m-1" || d.Message.Received != 4 {
			t.Errorf("%s: %v, %+v", name, err, d)
		}
	}
	broken := moved(nil)
	broken.MessageAttributes[EnvelopeName] = text(`{"v":2,"original-source":"` + testARN + `"}`)
	if _, err := ParseDeadLetter(broken); err == nil || !strings.Contains(err.Error(), "version must be 1, is 2") {
		t.Errorf("%v", err)
	}
	for _, envelope := range []string{`{"v":1,"original-source":"` + testARN + `2","original-id":"x","original-body":"nil"}`, "no envelope"} {
		m := moved(&good)
		m.MessageAttributes[EnvelopeName] = text(envelope)
		d, err := ParseDeadLetter(m)
		if err != nil || d.Message.Source != testARN || d.Message.ID != "order-1" || string(d.Message.Body) != "body" || len(d.Message.Headers) != 3 {
			t.Errorf("%q: %+v, %v", envelope, d, err)
		}
	}
}

// A message that fails again, after a replay, does not grow, and has one stamp: the new one.
func TestDeadLettersAreReplacedNotAppended(t *testing.T) {
	d := letter("body", ledger.Header{Name: "a", Type: "String", Value: []byte("v")})
	first, _, err := seal(d, whole, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		back, err := SourceInput(d, "u")
		if err != nil {
			t.Fatal(err)
		}
		d.Message.Headers = headersOf(received(back))
		again, _, err := seal(d, whole, false)
		if err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("%v\n%v\n%v", err, first, again)
		}
	}
}

func TestDeadLetterQueueIsValidated(t *testing.T) {
	srv := sqstest.Start(t, nil)
	for want, err := range map[string]error{
		"client must not be nil":    second(NewDeadLetterQueue((*sqs.Client)(nil), "u")),
		"queue URL must not be":     second(NewDeadLetterQueue(srv.Client(), " ")),
		"must have a body":          StampInput(&sqs.SendMessageInput{}, testARN, "id"),
		"must be the ARN":           StampInput(&sqs.SendMessageInput{MessageBody: aws.String("b")}, "", "id"),
		"1 to 1024 bytes, is 0":     StampInput(&sqs.SendMessageInput{MessageBody: aws.String("b")}, testARN, ""),
		"1 to 1024 bytes, is 2000 ": StampInput(&sqs.SendMessageInput{MessageBody: aws.String("b")}, testARN, strings.Repeat("i", 2000)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestDeadLetterErrorIsBounded(t *testing.T) {
	body := []byte(`{"card":"4111"}`)
	text := consumer.DeadLetterError("cannot charge "+string(body)+"\xff\x00"+strings.Repeat("é", 2000), body)
	if len(text) > consumer.MaxDeadLetterError || !utf8.ValidString(text) || strings.Contains(text, "4111") || !strings.HasPrefix(text, "cannot charge [body]") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}
