package sqs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// ReplayAPI is what a [ReplaySource] and a [ReplayTarget] use of an SQS client; *sqs.Client of aws-sdk-go-v2 implements it.
// The IAM actions are, on the dead-letter queue, sqs:ReceiveMessage, sqs:DeleteMessage and sqs:GetQueueAttributes; on the
// source queue, sqs:SendMessage, sqs:GetQueueUrl and sqs:GetQueueAttributes.
type ReplayAPI interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

var _ ReplayAPI = (*sqs.Client)(nil)

const (
	replayHide    = 30 * time.Second
	replayPollers = 4
	replayTries   = 5         // of a request that may succeed when it is repeated
	maxSeen       = 1_000_000 // messages that a run leaves, and remembers
	clocksAgree   = 5 * time.Second
)

// ReplaySource is a dead-letter queue as a source of package replay. Build it with [NewReplaySource].
//
// A run is of the messages that were sent or moved there before it began, by the queue's clock. Of a FIFO queue, ten
// messages of a group are seen at a time, and the others only when these are gone; so a dry run of one sees the first ten of
// each group, and what a run leaves keeps those behind it hidden until it is visible again.
//
// SQS counts what a run receives, a dry run too. A queue with a redrive policy of its own moves on what was received too
// often: the report warns of one.
type ReplaySource struct {
	client ReplayAPI
	url    string
	hide   time.Duration

	mu       sync.Mutex
	began    time.Time          // by the queue's clock
	seen     map[string]*inHand // by MessageId
	open     int                // letters that the run has in hand
	kept     int                // letters that stay
	removed  int
	young    int
	quiet    int           // polls in a row that brought nothing new
	turn     chan struct{} // closed when the letters of the last take are handed out
	last     time.Time
	warnings []string
	unread   int64 // what look counted
}

// inHand is one message of the queue.
type inHand struct {
	id, handle string
	done       bool // sent, and to be deleted
}

var (
	_ replay.Source   = (*ReplaySource)(nil)
	_ replay.Unreader = (*ReplaySource)(nil)
)

// NewReplaySource returns the dead-letter queue at queueURL as a source for replay.Run. What it receives is hidden from
// others for visibility (1 s to 12 h, whole seconds; 0: 30 s), and deleted once it is sent; what is left is there again
// after that time, also if the process is killed. Nothing connects before the run.
func NewReplaySource(client ReplayAPI, queueURL string, visibility time.Duration) (*ReplaySource, error) {
	visibility = cmp.Or(visibility, replayHide)
	switch {
	case engine.IsNil(client):
		return nil, errors.New("sqs: NewReplaySource: the client must not be nil")
	case strings.TrimSpace(queueURL) == "":
		return nil, errors.New("sqs: NewReplaySource: the queue URL must not be empty")
	case visibility < time.Second || visibility > maxVisibility || visibility%time.Second != 0:
		return nil, fmt.Errorf("sqs: NewReplaySource: visibility must be whole seconds, 1s to %s, is %s", maxVisibility, visibility)
	}
	return &ReplaySource{client: client, url: queueURL, hide: visibility}, nil
}

// String names the queue by its URL.
func (s *ReplaySource) String() string { return s.url }

// Removes implements replay.Source: what is done with is deleted.
func (s *ReplaySource) Removes() bool { return true }

// Address returns the queue's ARN.
func (s *ReplaySource) Address(ctx context.Context) (string, error) {
	out, err := s.ask(ctx)
	if err != nil {
		return "", err
	}
	return out.Attributes[string(types.QueueAttributeNameQueueArn)], nil
}

// Count returns how many messages the queue says it has.
func (s *ReplaySource) Count(ctx context.Context, _ *ledger.Filter) (int64, error) {
	n, err := s.size(ctx)
	return int64(n), err
}

// size is how many messages the queue says it has, hidden ones too.
func (s *ReplaySource) size(ctx context.Context) (all int, err error) {
	out, err := s.ask(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	} {
		n, _ := strconv.Atoi(out.Attributes[string(name)])
		all += n
	}
	return all, nil
}

func (s *ReplaySource) ask(ctx context.Context) (*sqs.GetQueueAttributesOutput, error) {
	out, err := attributesOf(ctx, s.client, s.url, types.QueueAttributeNameQueueArn, types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible, types.QueueAttributeNameRedrivePolicy)
	if err != nil {
		return nil, fmt.Errorf("sqs: dead-letter queue %q: %w", s.url, err)
	}
	return out, nil
}

// redrives warns of a redrive policy of the queue's own. SQS counts what a run receives, a dry run too, and moves what it has
// counted too often.
func (s *ReplaySource) redrives(attributes map[string]string) []string {
	if policy := attributes[string(types.QueueAttributeNameRedrivePolicy)]; policy != "" {
		return []string{fmt.Sprintf("%s has a redrive policy of its own, %.300s: each run, a dry run too, counts as a receive of what it "+
			"reads, and after maxReceiveCount of them the messages move on; is it the dead-letter queue?", s.url, policy)}
	}
	return nil
}

// queueTime is the queue's clock, at the latest. An answer tells it to the second, and late where the server makes that text
// once for many answers; our own clock tells it to the millisecond, as far as it agrees.
func queueTime(out *sqs.GetQueueAttributesOutput, now time.Time) time.Time {
	theirs, ok := middleware.GetServerTime(out.ResultMetadata)
	if !ok || !now.Before(theirs) && now.Sub(theirs) < clocksAgree {
		return now
	}
	return theirs.Add(time.Second)
}

// Letters receives what was there, by several polls at once.
func (s *ReplaySource) Letters(ctx context.Context, _ *ledger.Filter) iter.Seq2[*replay.Letter, error] {
	return func(yield func(*replay.Letter, error) bool) {
		out, err := s.ask(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		s.mu.Lock()
		s.began = queueTime(out, time.Now())
		s.seen, s.open, s.kept, s.removed, s.young, s.quiet = map[string]*inHand{}, 0, 0, 0, 0, 0
		s.last, s.warnings, s.turn, s.unread = time.Now(), s.redrives(out.Attributes), nil, 0
		s.mu.Unlock()
		polling, stop := context.WithCancelCause(ctx)
		letters := make(chan *replay.Letter)
		var pollers sync.WaitGroup
		for range replayPollers {
			pollers.Go(func() {
				if err := s.poll(polling, letters); err != nil {
					stop(err)
				}
			})
		}
		go func() { pollers.Wait(); close(letters) }()
		defer func() {
			stop(nil)
			for range letters { // until the pollers have ended
			}
		}()
		for l := range letters {
			if !yield(l, nil) {
				return
			}
		}
		if err := context.Cause(polling); err != nil {
			yield(nil, err)
			return
		}
		s.look(ctx)
	}
}

// poll receives until there is nothing more.
func (s *ReplaySource) poll(ctx context.Context, out chan<- *replay.Letter) error {
	for failed := 0; ctx.Err() == nil; {
		if s.over(ctx) {
			return nil
		}
		got, err := s.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &s.url, MaxNumberOfMessages: maxBatch, WaitTimeSeconds: 1, VisibilityTimeout: int32(s.hide / time.Second),
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			failed++
			if ctx.Err() != nil || kindOf(err).final() || failed == replayTries {
				return fmt.Errorf("sqs: dead-letter queue %q: %w", s.url, err)
			}
			engine.Sleep(ctx, retryDelay(failed))
			continue
		}
		failed = 0
		fresh, again, turn, err := s.take(got.Messages)
		if err != nil {
			return err
		}
		if len(again) > 0 {
			_ = s.remove(ctx, again) // they come again otherwise
		}
		if err := turn.hand(ctx, fresh, out); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// turn keeps the order of what several polls received: of a FIFO group, what comes behind is received while what is before
// it still waits to be handed out, once that is visible again.
type turn struct{ before, done chan struct{} }

func (t turn) hand(ctx context.Context, letters []*replay.Letter, out chan<- *replay.Letter) error {
	if t.done == nil {
		return nil
	}
	defer close(t.done)
	if t.before != nil {
		select {
		case <-t.before:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, l := range letters {
		select {
		case out <- l:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// take notes what was received. It returns the letters that are new to this run, and what was sent already and only has to
// be deleted.
func (s *ReplaySource) take(messages []types.Message) (fresh []*replay.Letter, again []*inHand, t turn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range messages {
		m := &messages[i]
		id, handle := aws.ToString(m.MessageId), aws.ToString(m.ReceiptHandle)
		if r := s.seen[id]; r != nil {
			if r.handle = handle; r.done {
				again = append(again, r)
			}
			continue
		}
		r := &inHand{id: id, handle: handle}
		s.seen[id] = r
		if sentAt(m).After(s.began) {
			s.young++
			continue
		}
		s.open++
		fresh = append(fresh, newLetter(m, r))
	}
	s.quiet++
	if len(fresh) > 0 {
		s.quiet, s.last = 0, time.Now()
		t = turn{before: s.turn, done: make(chan struct{})}
		s.turn = t.done
	}
	if len(s.seen) > maxSeen {
		err = fmt.Errorf("sqs: dead-letter queue %q: more than %d messages are left in it: a run remembers no more", s.url, maxSeen)
	}
	return fresh, again, t, err
}

// newLetter reads a message of the queue.
func newLetter(m *types.Message, r *inHand) *replay.Letter {
	l := &replay.Letter{Origin: r}
	d, ours, err := parseDeadLetter(m)
	if err != nil {
		l.Message.ID, l.Unreadable = r.id, err
		return l
	}
	l.DeadLetter, l.At, l.Moved = *d, d.FailedAt, m.Attributes[deadSource] != ""
	if l.Moved && !ours {
		l.MovedID = r.id
	}
	l.Identified = d.Stamp != nil || !ours && d.Message.Source != ""
	if d.Stamp != nil {
		l.Token = d.Stamp.Token
	}
	return l
}
