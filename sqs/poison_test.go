package sqs

import (
	"context"
	"fmt"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

const (
	hugeBody = 50 << 20
	// poisonHeap bounds what a worker, the server in process and the ledger in memory take together for a huge body.
	poisonHeap = 12 * hugeBody
)

// impostor is a service that breaks SQS's own limits: it delivers a body of 50 MB in place of "huge", and 10,000
// attributes with names of all sorts beside "many".
type impostor struct{ *sqs.Client }

// ReceiveMessage receives, and changes what it received.
func (c impostor) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	out, err := c.Client.ReceiveMessage(ctx, in, options...)
	if err != nil {
		return out, err
	}
	for i := range out.Messages {
		m := &out.Messages[i]
		switch *m.Body {
		case "huge":
			m.Body = aws.String(`{"id":"` + strings.Repeat("\x00", hugeBody))
		case "many":
			m.MessageAttributes = map[string]types.MessageAttributeValue{"": {}, "\x00\xff\x1b[2J": {DataType: aws.String("\xff"), BinaryValue: []byte{0}}}
			for i := range 10_000 {
				m.MessageAttributes[fmt.Sprint("name ", i)] = text("value")
			}
		case "\uFFFD": // what is not UTF-8 never gets through JSON
			m.Body = aws.String("\xff\xfe")
		}
	}
	return out, nil
}

// A message that nobody can read took down consumers: it filled their memory, or crashed them, was received again and
// crashed the next. Each runs once, fails for good with a clear error, is in the archive to the byte, and costs its
// neighbours nothing; memory stays below a bound.
func TestPitfall70_PoisonMessages(t *testing.T) {
	s := newSite(t, "", 100)
	poison := map[string]string{ // body: what its error says
		"huge": "not JSON at byte 8 of", "many": "not JSON at byte 1 of 4", "\uFFFD": "not JSON at byte 1 of 2",
		strings.Repeat(`{"a":`, 100_000): "nested deeper than 1000 levels at byte 5000", "names": "not JSON at byte",
		strings.Repeat("x", maxMessage): "not JSON at byte 1 of 1048576",
	}
	runs, calls := map[string]int{}, map[string]int{}
	var mu sync.Mutex
	type order struct{ ID string }
	decode := consumer.JSON(func(_ context.Context, o order) error {
		mu.Lock()
		defer mu.Unlock()
		runs[o.ID]++
		return nil
	})
	highest := heapDuring(t, func() {
		for body := range poison {
			if _, err := s.client.SendMessage(t.Context(), s.poisonous(body)); err != nil {
				t.Fatalf("%.40q: %v", body, err)
			}
			s.send(fmt.Sprintf(`{"id":"good %d"}`, len(poison)))
		}
		target, err := NewDeadLetterQueue(s.client, s.create("forwarded-"+s.name, nil))
		if err != nil {
			t.Fatal(err)
		}
		c := quick()
		c.DeadLetter, c.DeadLetterTimeout, c.Lease, c.VisibilityTimeout = target, time.Minute, 30*time.Second, time.Minute
		w, err := NewWorker(impostor{s.client}, s.url, s.ledger, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			mu.Lock()
			calls[m.ID]++
			mu.Unlock()
			return decode.Handle(ctx, m)
		}), c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		for deadline := time.Now().Add(3 * time.Minute); s.srv.Queue(s.name).Depth() > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) { // it is long, for a busy machine moves 50 MB slowly
				t.Fatalf("%+v", s.srv.Queue(s.name))
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	if highest > poisonHeap {
		t.Errorf("the heap grew by %d MiB, want at most %d MiB", highest>>20, poisonHeap>>20)
	}
	t.Logf("the heap grew by %d MiB at most", highest>>20)
	if good := fmt.Sprint("good ", len(poison)); runs[good] != len(poison) || len(runs) != 1 || len(calls) != 2*len(poison) {
		t.Errorf("handled %v, %d messages", runs, len(calls))
	}
	for id, n := range calls {
		if n != 1 {
			t.Errorf("%s was handled %d times", id, n)
		}
	}
	checkPoisoned(t, s, poison)
}

// poisonous is the message that has this body. "names" has attributes that look like ours and are not.
func (s *site) poisonous(body string) *sqs.SendMessageInput {
	in := &sqs.SendMessageInput{QueueUrl: &s.url, MessageBody: &body}
	if body != "names" {
		return in
	}
	forged := consumer.NewStamp("arn:aws:sqs:us-east-1:000000000000:other", "id", []byte(body))
	in.MessageAttributes = map[string]types.MessageAttributeValue{
		consumer.StampName: text(forged.String()),
		EnvelopeName:       text(`{"v":1,"original-source":"` + s.arn(s.name) + `","x":` + strings.Repeat(`{"a":`, 40_000)),
		"traceparent":      text("00-x-y-z"), "raw": {DataType: aws.String("Binary"), BinaryValue: []byte{0xff}},
	}
	return in
}

// checkPoisoned looks at the archive: each whole, with its error, and forwarded unless it is larger than a queue takes.
func checkPoisoned(t *testing.T, s *site, poison map[string]string) {
	t.Helper()
	n := 0
	for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		body := string(d.Body)
		switch {
		case len(body) > hugeBody:
			body = "huge"
		case body == "\xff\xfe":
			body = "\uFFFD"
		}
		want, ok := poison[body]
		small := len(d.Body) < maxMessage/2 && len(d.Headers) < 100
		if !ok || len(d.Errors) != 1 || small && !d.Sent || body == "many" && len(d.Headers) < 10_000 || body == "names" && len(d.Headers) != 4 {
			t.Errorf("%.40q: %v, sent %v, %d headers, %d bytes", body, d.Errors, d.Sent, len(d.Headers), len(d.Body))
			continue
		}
		if text := d.Errors[0].Error; !strings.Contains(text, want) || !utf8.ValidString(text) || len(text) > 300 {
			t.Errorf("%.40q: %.400s", body, text)
		}
	}
	if n != len(poison) {
		t.Errorf("%d dead letters, want %d", n, len(poison))
	}
}

// heapDuring returns by how many bytes of live and not yet swept objects the heap grew at most while f ran.
func heapDuring(t *testing.T, f func()) uint64 {
	t.Helper()
	read := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := read()
	highest := before
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			highest = max(highest, read())
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	func() {
		defer watching.Wait() // also when f ends the test
		defer close(stop)
		f()
	}()
	return highest - before
}
