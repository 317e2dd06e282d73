package sqs

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
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

// ReplaySource is a dead-letter queue as a source of package replay. Build it with [NewReplaySource].
type ReplaySource struct {
	client ReplayAPI
	url    string
	hide   time.Duration
}

var _ replay.Source = (*ReplaySource)(nil)

// NewReplaySource returns the dead-letter queue at queueURL as a source for replay.Run. What it receives is hidden from
// others for visibility (1 s to 12 h, whole seconds; 0: 30 s), and deleted once it is sent; what is left is there again
// after that time, also if the process is killed. Nothing connects before the run.
func NewReplaySource(client ReplayAPI, queueURL string, visibility time.Duration) (*ReplaySource, error) {
	return nil, errors.New("sqs: not built yet")
}

func (s *ReplaySource) String() string                          { return s.url }
func (s *ReplaySource) Address(context.Context) (string, error) { return "", nil }
func (s *ReplaySource) Count(context.Context) (int64, error)    { return -1, nil }
func (s *ReplaySource) Letters(context.Context, *ledger.Filter) iter.Seq2[*replay.Letter, error] {
	return func(func(*replay.Letter, error) bool) {}
}
func (s *ReplaySource) Done(context.Context, []*replay.Letter) error { return nil }
func (s *ReplaySource) Warnings() []string                           { return nil }

// ReplayTarget sends dead letters back to the SQS queues they came from. Build it with [NewReplayTarget].
type ReplayTarget struct{ client ReplayAPI }

var _ replay.Target = (*ReplayTarget)(nil)

// NewReplayTarget returns a target for replay.Run that sends each message back to the queue it came from, if that is one of
// queueURLs. With none, a queue is found by its ARN (sqs:GetQueueUrl).
func NewReplayTarget(client ReplayAPI, queueURLs ...string) (*ReplayTarget, error) {
	return nil, errors.New("sqs: not built yet")
}

func (t *ReplayTarget) String() string                            { return "" }
func (t *ReplayTarget) Begin(context.Context, replay.Begin) error { return nil }
func (t *ReplayTarget) Accept(*replay.Letter) error               { return nil }
func (t *ReplayTarget) Send(context.Context, []*replay.Letter) []replay.Result {
	return nil
}
func (t *ReplayTarget) Most() int                 { return maxBatch }
func (t *ReplayTarget) End(context.Context) error { return nil }
