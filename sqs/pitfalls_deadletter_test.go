package sqs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// buggy is a handler that fails until its bug is mended.
type buggy struct {
	mu     sync.Mutex
	mended bool
	got    []consumer.Message
}

func (b *buggy) handle(_ context.Context, m *consumer.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, *m)
	if !b.mended {
		return consumer.Terminal(errors.New("the bug"))
	}
	return nil
}

func (b *buggy) runs() []consumer.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]consumer.Message{}, b.got...)
}

func (b *buggy) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mended = true
}

// forwarding is a worker's Config that forwards to the site's own dead-letter queue, which is that of its redrive policy.
func (s *site) forwarding() *Config {
	s.t.Helper()
	c := quick()
	var err error
	if c.DeadLetter, err = NewDeadLetterQueue(s.client, s.deadURL()); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *site) deadURL() string {
	s.t.Helper()
	out, err := s.client.GetQueueUrl(s.t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("dead-" + s.name)})
	if err != nil {
		s.t.Fatal(err)
	}
	return *out.QueueUrl
}

// deadDepth waits until there are n dead letters.
func (s *site) deadDepth(n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d messages in the dead-letter queue", n), func() bool {
		return s.srv.Counts("dead-"+s.name).Depth() == n
	})
}

func (s *site) receiveDead(n int) (out []types.Message) {
	s.t.Helper()
	url := s.deadURL()
	eventually(s.t, "the dead letters are received", func() bool {
		got, err := s.client.ReceiveMessage(s.t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, got.Messages...)
		return len(out) >= n
	})
	return out
}

// redrive moves everything from the dead-letter queue back, as the console does with a destination.
func (s *site) redrive() {
	s.t.Helper()
	_, err := s.client.StartMessageMoveTask(s.t.Context(), &sqs.StartMessageMoveTaskInput{
		SourceArn: aws.String(s.arn("dead-" + s.name)), DestinationArn: aws.String(s.arn(s.name)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// Redriven by the console, a dead letter of ours has a new MessageId: it is recognised by its stamp.
func TestPitfall51_ConsoleRedriveIsRecognised(t *testing.T) { redriven(t) }

// Dead-lettered by us, redriven by the console with a new MessageId: it runs; it is not deleted as "already failed".
func TestPitfall78_ConsoleRedriveRuns(t *testing.T) { redriven(t) }

func redriven(t *testing.T) {
	s := newSite(t, "", 100)
	b := &buggy{}
	in := &sqs.SendMessageInput{QueueUrl: &s.url, MessageBody: aws.String("order"), MessageAttributes: map[string]types.MessageAttributeValue{}}
	for i := range maxAttributes { // two more than there is room for beside ours
		in.MessageAttributes[fmt.Sprint("a", i)] = text("v")
	}
	sent, err := s.client.SendMessage(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	w := s.start(b.handle, s.forwarding())
	s.deadDepth(1)
	s.empty()
	if r := s.record(w.Worker, *sent.MessageId); r.State != ledger.Failed || !r.Archived[0].Sent {
		t.Fatalf("row %+v", r)
	}
	b.mend()
	s.redrive()
	eventually(t, "it runs again", func() bool { return len(b.runs()) == 2 })
	s.empty()
	runs := b.runs()
	own := runs[1].Headers[:len(runs[1].Headers)-1] // all but the stamp
	if runs[1].ID != *sent.MessageId || !reflect.DeepEqual(runs[0].Headers, own) {
		t.Errorf("first  %+v\nsecond %+v", runs[0], runs[1])
	}
	if r := s.record(w.Worker, *sent.MessageId); r.State != ledger.Succeeded || r.Token != 2 {
		t.Errorf("row %+v", r)
	}
	s.noDead()
	w.end()
}

// A copied stamp, and one forged for another body, name no dead letter: each message runs as itself, and fails as itself.
func TestPitfall22_ForgedStampIsNotForwarded(t *testing.T) {
	s := newSite(t, "", 100)
	b := &buggy{}
	arn := s.arn(s.name)
	stamp := consumer.NewStamp(arn, "original", []byte("original body"))
	in := &sqs.SendMessageInput{QueueUrl: &s.url, MessageBody: aws.String("another body"),
		MessageAttributes: map[string]types.MessageAttributeValue{consumer.StampName: text(stamp.String())}}
	sent, err := s.client.SendMessage(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	w := s.start(b.handle, s.forwarding())
	s.deadDepth(1)
	d, err := ParseDeadLetter(&s.receiveDead(1)[0])
	if err != nil || d.Stamp == nil || d.Stamp.ID != *sent.MessageId || d.Message.ID != *sent.MessageId || len(d.Message.Headers) != 0 {
		t.Errorf("%v, %+v", err, d)
	}
	if _, err := s.ledger.Get(t.Context(), ledger.Key{Scope: scopeOf(arn, "tests"), ID: []byte("original")}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the original's row: %v", err)
	}
	w.end()
}

// A FIFO message that is dead-lettered, and replayed, within 5 minutes of its first send: it is delivered each time, in its
// group; SQS would swallow a deduplication id that it has seen. Only a repeated publish of one failure is swallowed.
func TestPitfall82_FIFOWithinFiveMinutes(t *testing.T) {
	s := newSite(t, ".fifo", 100)
	b := &buggy{}
	ids := s.send("alice:1")
	w := s.start(b.handle, s.forwarding())
	s.deadDepth(1)
	s.empty()
	first := s.receiveDead(1)[0]
	d, err := ParseDeadLetter(&first)
	if err != nil || groupOf(&first) != "alice" || d.Message.Group != "alice" {
		t.Fatalf("%v, %+v", err, d)
	}
	q := s.forwarding().DeadLetter
	if err := q.Publish(t.Context(), d); err != nil { // its answer was lost: repeated
		t.Fatal(err)
	}
	back, err := SourceInput(d, s.url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.SendMessage(t.Context(), back); err != nil { // the bug still lives
		t.Fatal(err)
	}
	s.deadDepth(2) // not three
	eventually(t, "it ran again", func() bool { return len(b.runs()) == 2 })
	s.empty()
	if r := s.record(w.Worker, ids[0]); r.State != ledger.Failed || r.Token != 2 || len(r.Archived) != 2 {
		t.Errorf("row %+v", r)
	}
	if runs := b.runs(); runs[1].Group != "alice" || runs[1].ID != ids[0] {
		t.Errorf("second run %+v", runs[1])
	}
	w.end()
}

// SQS's own redrive policy works beside ours, into the same queue: what it moved keeps its MessageId, and names its source.
func TestRedrivePolicyGoesOnWorking(t *testing.T) {
	s := newSite(t, "", 2)
	moved := s.send("by SQS")[0]
	for range 3 { // somebody received it and did nothing, until SQS moved it
		_, err := s.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &s.url, VisibilityTimeout: 1})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is visible again, or moved", func() bool {
			return s.srv.Counts(s.name).Visible == 1 || s.srv.Counts("dead-"+s.name).Depth() == 1
		})
	}
	s.deadDepth(1)
	ours := s.send("by us")[0]
	b := &buggy{}
	w := s.start(b.handle, s.forwarding())
	s.deadDepth(2)
	found := map[string]*consumer.DeadLetter{}
	for _, m := range s.receiveDead(2) {
		d, err := ParseDeadLetter(&m)
		if err != nil {
			t.Fatal(err)
		}
		found[d.Message.ID] = d
	}
	for id, body := range map[string]string{moved: "by SQS", ours: "by us"} {
		d := found[id]
		if d == nil || string(d.Message.Body) != body || d.Message.Source != s.arn(s.name) || (d.Kind == "") != (id == moved) || (d.Stamp == nil) != (id == moved) {
			t.Errorf("%s: %+v", body, d)
		}
	}
	w.end()
}

// A producer's stamp is an identity of its own choice: what is sent twice with it is handled once.
func TestStampInputOfAProducer(t *testing.T) {
	s := newSite(t, "", 100)
	b := newBook()
	w := s.start(b.handle, nil)
	for range 2 {
		in := &sqs.SendMessageInput{QueueUrl: &s.url, MessageBody: aws.String("order 7")}
		if err := StampInput(in, s.arn(s.name), "order-7"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.SendMessage(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	s.empty()
	b.once(t, []string{"order 7"})
	if r := s.record(w.Worker, "order-7"); r.State != ledger.Succeeded {
		t.Errorf("row %+v", r)
	}
	w.end()
}

// The dead-letter queue is gone: the worker starts with a warning, and what fails is archived, marked unsent.
func TestDeadLetterQueueThatIsGone(t *testing.T) {
	s := newSite(t, "", 100)
	c := s.forwarding()
	c.DeadLetterTries = 2
	url := s.create("gone-"+s.name, nil)
	if _, err := s.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
		t.Fatal(err)
	}
	c.DeadLetter = deadAt(t, s.client, url)
	b := &buggy{}
	ids := s.send("bad")
	w := s.start(b.handle, c)
	s.empty()
	if r := s.record(w.Worker, ids[0]); r.State != ledger.Failed || r.Archived[0].Sent {
		t.Errorf("row %+v", r)
	}
	h := w.Health()
	if !h.Ready || !h.Alive || len(h.Warnings) == 0 {
		t.Errorf("health %+v", h)
	}
	w.end()
}

func deadAt(t *testing.T, client DeadLetterAPI, url string) *DeadLetterQueue {
	t.Helper()
	q, err := NewDeadLetterQueue(client, url)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// The dead-letter queue answers with errors for a while: each failure is there once it is back.
func TestDeadLetterQueueThatComesBack(t *testing.T) {
	s := newSite(t, "", 100)
	s.srv.Inject(sqstest.Fault{Action: "SendMessage", Queue: "dead-" + s.name, Code: sqstest.CodeInternal, Times: 2})
	b := &buggy{}
	bodies := numbers("bad", 3)
	began := time.Now()
	w := s.start(b.handle, s.forwarding())
	s.send(bodies...)
	s.deadDepth(len(bodies))
	s.empty()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	w.end()
}
