package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// stub is a queue that keeps what it takes.
type stub struct {
	sqs.PublisherAPI
	mu     sync.Mutex
	got    []types.SendMessageBatchRequestEntry
	sizes  []int
	refuse func(body string) *types.BatchResultErrorEntry
	err    error
}

func (s *stub) GetQueueAttributes(context.Context, *awssqs.GetQueueAttributesInput, ...func(*awssqs.Options)) (*awssqs.GetQueueAttributesOutput, error) {
	return &awssqs.GetQueueAttributesOutput{Attributes: map[string]string{"QueueArn": "arn:aws:sqs:x:1:q"}}, nil
}

func (s *stub) SendMessageBatch(_ context.Context, in *awssqs.SendMessageBatchInput, _ ...func(*awssqs.Options)) (*awssqs.SendMessageBatchOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.sizes = append(s.sizes, len(in.Entries))
	out := &awssqs.SendMessageBatchOutput{}
	for _, e := range in.Entries {
		if s.refuse != nil {
			if bad := s.refuse(*e.MessageBody); bad != nil {
				bad.Id = e.Id
				out.Failed = append(out.Failed, *bad)
				continue
			}
		}
		s.got = append(s.got, e)
		out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id})
	}
	return out, nil
}

func publications(n, keys int) (all []consumer.Publication) {
	for i := range n {
		m := consumer.Publication{Source: "arn:aws:sqs:x:1:q", Outgoing: ledger.Outgoing{ID: fmt.Sprint("id", i), Body: fmt.Append(nil, i),
			Headers: []ledger.Header{{Name: "a", Value: []byte("1")}}}}
		if keys > 0 {
			m.Key = fmt.Append(nil, "k", i%keys)
		}
		s := consumer.NewStamp(m.Source, m.ID, m.Body)
		m.Stamp = &s
		all = append(all, m)
	}
	return all
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	queues := sqstest.Start(t, nil)
	for name, attributes := range map[string]map[string]string{"orders": nil, "orders.fifo": {"FifoQueue": "true"}} {
		url, err := queues.CreateQueue(name, attributes)
		if err != nil {
			t.Fatal(err)
		}
		p, err := sqs.NewPublisher(queues.Client(), url)
		if err != nil {
			t.Fatal(err)
		}
		messages := publications(57, 5)
		for range 2 { // a FIFO queue drops what it has
			for i, err := range p.Publish(t.Context(), messages) {
				if err != nil {
					t.Fatalf("%s, message %d: %v", name, i, err)
				}
			}
		}
		want := 2 * len(messages)
		if attributes != nil {
			want = len(messages)
		}
		if got := queues.Counts(name).Visible; got != want {
			t.Errorf("%s: %d messages, want %d", name, got, want)
		}
		if source, err := p.Source(t.Context()); err != nil || source == "" {
			t.Error(source, err)
		}
	}
}

// TestPublisherOrder: of a group of a FIFO queue one message is under way at a time, and none behind one that was refused.
func TestPublisherOrder(t *testing.T) {
	t.Parallel()
	s := &stub{refuse: func(body string) *types.BatchResultErrorEntry {
		if body == "7" {
			return &types.BatchResultErrorEntry{Code: aws.String("InvalidMessageContents"), SenderFault: true}
		}
		return nil
	}}
	p, err := sqs.NewPublisher(s, "http://x/q.fifo")
	if err != nil {
		t.Fatal(err)
	}
	errs := p.Publish(t.Context(), publications(20, 4))
	for i, err := range errs {
		switch {
		case i == 7 && consumer.IsTerminal(err), i > 7 && i%4 == 3 && ledger.Unavailable(err), i != 7 && (i < 7 || i%4 != 3) && err == nil:
		default:
			t.Errorf("message %d: %v", i, err)
		}
	}
	last := map[string]int{}
	for _, e := range s.got {
		var i int
		if _, err := fmt.Sscan(*e.MessageBody, &i); err != nil {
			t.Fatal(err)
		}
		if before, ok := last[*e.MessageGroupId]; ok && i < before {
			t.Errorf("group %s: %d behind %d", *e.MessageGroupId, i, before)
		}
		last[*e.MessageGroupId] = i
	}
	if slices.Max(s.sizes) > 4 {
		t.Errorf("batches of %v of four groups", s.sizes)
	}
}

func TestPublisherFailures(t *testing.T) {
	t.Parallel()
	p, err := sqs.NewPublisher(&stub{}, "http://x/q")
	if err != nil {
		t.Fatal(err)
	}
	messages := publications(3, 0)
	messages[0].Body, messages[1].Body = nil, []byte{0xff}
	messages[1].Headers = append(messages[1].Headers, ledger.Header{Name: "b", Value: []byte{0xff}})
	errs := p.Publish(t.Context(), messages)
	if !consumer.IsTerminal(errs[0]) || !consumer.IsTerminal(errs[1]) || errs[2] != nil {
		t.Fatalf("%v", errs)
	}
	away, err := sqs.NewPublisher(&stub{err: errors.New("connection reset")}, "http://x/q")
	if err != nil {
		t.Fatal(err)
	}
	if err := away.Publish(t.Context(), publications(1, 0))[0]; !ledger.Unavailable(err) {
		t.Fatalf("%v, want an outage", err)
	}
	queues := sqstest.Start(t, nil)
	url, err := queues.CreateQueue("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	missing, err := sqs.NewPublisher(queues.Client(), url+"-not")
	if err != nil {
		t.Fatal(err)
	}
	if err := missing.Publish(t.Context(), publications(1, 0))[0]; err == nil || ledger.Unavailable(err) || consumer.IsTerminal(err) {
		t.Fatalf("no such queue: %v", err)
	}
	for name, make := range map[string]func() error{
		"nil client": func() error { _, err := sqs.NewPublisher(nil, "http://x/q"); return err },
		"no queue":   func() error { _, err := sqs.NewPublisher(&stub{}, " "); return err },
	} {
		if make() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
