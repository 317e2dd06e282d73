package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/replay"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Keep implements replay.Source: the messages stay hidden until their time is over.
func (s *ReplaySource) Keep(letters []*replay.Letter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open -= len(letters)
	s.kept += len(letters)
}

// Done implements replay.Source: it deletes the messages.
func (s *ReplaySource) Done(ctx context.Context, letters []*replay.Letter) error {
	list := make([]*inHand, len(letters))
	s.mu.Lock()
	for i, l := range letters {
		list[i] = l.Origin.(*inHand)
		list[i].done = true
	}
	s.open -= len(letters)
	s.removed += len(letters)
	s.mu.Unlock()
	return s.remove(ctx, list)
}

// remove deletes messages, in batches. What is not deleted comes again, and is deleted then.
func (s *ReplaySource) remove(ctx context.Context, list []*inHand) (err error) {
	for some := range slices.Chunk(list, maxBatch) {
		err = errors.Join(err, s.removeBatch(ctx, some))
	}
	return err
}

func (s *ReplaySource) removeBatch(ctx context.Context, list []*inHand) error {
	var refused error
	for tries := 1; ; tries++ {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &s.url}
		s.mu.Lock()
		for i, r := range list {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(r.handle)})
		}
		s.mu.Unlock()
		out, err := s.client.DeleteMessageBatch(ctx, in)
		var rest []*inHand
		switch {
		case err == nil:
			rest, refused = s.forget(list, out.Failed)
		case kindOf(err).final():
			return fmt.Errorf("sqs: dead-letter queue %q: %w", s.url, err)
		default:
			rest, refused = list, err
		}
		if len(rest) == 0 {
			return nil
		}
		if tries == replayTries || ctx.Err() != nil {
			return fmt.Errorf("sqs: dead-letter queue %q: %d messages are not deleted yet: %w", s.url, len(rest), refused)
		}
		list = rest
		engine.Sleep(ctx, retryDelay(tries))
	}
}

// forget forgets what was deleted, and returns what was not and can be tried again: a handle of old is not, the message
// comes again with a new one.
func (s *ReplaySource) forget(list []*inHand, failed []types.BatchResultErrorEntry) (rest []*inHand, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bad := make(map[int]bool, len(failed))
	for i := range failed {
		n, ok := index(failed[i].Id, len(list))
		if !ok {
			continue
		}
		bad[n] = true
		if code := aws.ToString(failed[i].Code); kindOfEntry(code) != kindHandle {
			rest, refused = append(rest, list[n]), fmt.Errorf("%s: %s", code, aws.ToString(failed[i].Message))
		}
	}
	for i, r := range list {
		if !bad[i] {
			delete(s.seen, r.id)
		}
	}
	return rest, refused
}
