package sqs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
)

// PublisherAPI is what a [Publisher] uses of an SQS client; *sqs.Client of aws-sdk-go-v2 implements it. The IAM actions on the queue are
// sqs:SendMessage and sqs:GetQueueAttributes.
type PublisherAPI interface {
	DeadLetterAPI
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
}

var _ PublisherAPI = (*sqs.Client)(nil)

// Publisher sends what was published inside of InTx to a queue: a target of consumer.Relay. Build it with [NewPublisher].
//
// A message has the body, the headers as attributes (at most nine beside the stamp; one without a type is a String, or Binary if it is no
// text), and its stamp. A body that is no text, or empty, is refused for good, and so is what is too large. On a FIFO queue the key is the
// MessageGroupId, and what is sent twice within five minutes is one message. On a standard queue the key is the group of a fair queue, and
// orders nothing, as the queue does not.
type Publisher struct {
	client PublisherAPI
	queue  *DeadLetterQueue
}

var _ consumer.Publisher = (*Publisher)(nil)

// NewPublisher returns a target for consumer.Relay. The client is the caller's and may be shared. Nothing connects before a message is there.
func NewPublisher(client PublisherAPI, queueURL string) (*Publisher, error) {
	if engine.IsNil(client) {
		return nil, errors.New("sqs: NewPublisher: the client must not be nil")
	}
	q, err := NewDeadLetterQueue(client, queueURL)
	if err != nil {
		return nil, fmt.Errorf("sqs: NewPublisher: %w", err)
	}
	return &Publisher{client: client, queue: q}, nil
}

// String names the queue by its URL.
func (p *Publisher) String() string { return p.queue.url }

// Source implements consumer.Publisher.
func (p *Publisher) Source(ctx context.Context) (string, error) {
	source, err := p.queue.Source(ctx)
	return source, failure(err)
}

const (
	batchEntries = 10 // of a SendMessageBatch (API reference)
	batchCalls   = 8  // that are under way at once
)

// Publish implements consumer.Publisher. Of a group of a FIFO queue one message is under way at a time.
func (p *Publisher) Publish(ctx context.Context, messages []consumer.Publication) []error {
	s := &sending{p: p, messages: messages, errs: make([]error, len(messages)), inputs: make([]*sqs.SendMessageInput, len(messages))}
	for i := range messages {
		s.inputs[i], s.errs[i] = p.input(&messages[i])
	}
	for s.round(ctx) {
	}
	return s.errs
}

// input makes the request that sends a message by itself.
func (p *Publisher) input(m *consumer.Publication) (*sqs.SendMessageInput, error) {
	d := &consumer.DeadLetter{Stamp: m.Stamp}
	d.Message.ID, d.Message.Source, d.Message.Body, d.Message.Key = m.ID, m.Source, m.Body, nil
	if len(m.Key) > 0 {
		d.Message.Key = m.Key
	}
	for _, h := range m.Headers {
		if h.Type == "" {
			if h.Type = "String"; !sendable(h.Value) {
				h.Type = "Binary"
			}
		}
		if h.Name != consumer.StampName {
			d.Message.Headers = append(d.Message.Headers, h)
		}
	}
	if !p.queue.fifo && d.Message.Key != nil {
		d.Message.Group = groupFor(&d.Message)
	}
	in, err := SourceInput(d, p.queue.url)
	if err != nil {
		return nil, consumer.Terminal(err)
	}
	if p.queue.fifo {
		in.MessageDeduplicationId = aws.String(digest("outbox", m.Source, m.ID))
	}
	return in, nil
}

// sending is one call of Publish.
type sending struct {
	p        *Publisher
	messages []consumer.Publication
	inputs   []*sqs.SendMessageInput // nil: it is refused, or was sent
	errs     []error
}

// round sends what may be under way at once: of a group its next message. False: nothing is left.
func (s *sending) round(ctx context.Context) bool {
	busy := map[string]bool{}
	var batches [][]int
	var batch []int
	size := 0
	for i, in := range s.inputs {
		if in == nil {
			if s.errs[i] != nil {
				busy[string(s.messages[i].Key)] = true // what is behind it stays
			}
			continue
		}
		if key := string(s.messages[i].Key); s.p.queue.fifo && key != "" {
			if busy[key] {
				if s.failedBefore(i) {
					s.inputs[i], s.errs[i] = nil, errBehind
				}
				continue
			}
			busy[key] = true
		}
		n := sizeOf(in)
		if len(batch) == batchEntries || size+n > maxMessage && len(batch) > 0 {
			batches, batch, size = append(batches, batch), nil, 0
		}
		batch, size = append(batch, i), size+n
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	var calls sync.WaitGroup
	places := make(chan struct{}, batchCalls)
	for _, batch := range batches {
		places <- struct{}{}
		calls.Go(func() {
			defer func() { <-places }()
			s.call(ctx, batch)
		})
	}
	calls.Wait()
	return len(batches) > 0
}

// failedBefore says whether an earlier message of a message's group has failed.
func (s *sending) failedBefore(i int) bool {
	for j := range i {
		if s.errs[j] != nil && string(s.messages[j].Key) == string(s.messages[i].Key) {
			return true
		}
	}
	return false
}

// errBehind is the error of a message that was not sent.
var errBehind = ledger.MarkUnavailable(errors.New("sqs: an earlier message of its group has failed"))

func (s *sending) call(ctx context.Context, batch []int) {
	in := &sqs.SendMessageBatchInput{QueueUrl: &s.p.queue.url}
	for at, i := range batch {
		in.Entries = append(in.Entries, entry(at, s.inputs[i]))
	}
	out, err := s.p.client.SendMessageBatch(ctx, in)
	answers := map[string]error{}
	if err == nil {
		for _, ok := range out.Successful {
			answers[aws.ToString(ok.Id)] = nil
		}
		for _, bad := range out.Failed {
			fault := smithy.FaultServer
			if bad.SenderFault {
				fault = smithy.FaultClient
			}
			answers[aws.ToString(bad.Id)] = &smithy.GenericAPIError{Code: aws.ToString(bad.Code), Message: aws.ToString(bad.Message), Fault: fault}
		}
	}
	for at, i := range batch {
		answer, ok := answers[strconv.Itoa(at)]
		if err != nil {
			answer = err
		} else if !ok {
			answer = errors.New("the answer says nothing of it")
		}
		s.inputs[i] = nil
		if answer != nil {
			s.errs[i] = failure(fmt.Errorf("sqs: queue %q: %w", s.p.queue.url, answer))
		}
	}
}

// failure says what kind of failure an error is: what SQS refuses for a message's own sake is Terminal, what it refuses for the queue's or
// the caller's is counted. Any other is an outage, also when there are too many requests.
func failure(err error) error {
	if err == nil || ledger.Unavailable(err) {
		return err
	}
	if isRefusal(err) {
		return consumer.Terminal(err)
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code := strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService.")
		if strings.Contains(code, "NonExistentQueue") || strings.Contains(code, "QueueDoesNotExist") || strings.Contains(code, "AccessDenied") ||
			strings.Contains(code, "InvalidAddress") {
			return err
		}
	}
	return ledger.MarkUnavailable(err)
}
