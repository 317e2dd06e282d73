package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/replay"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// ReplayTarget sends dead letters back to the SQS queues they came from: body, attributes and group as they were, with
// their stamp (see [SourceInput]). Build it with [NewReplayTarget].
type ReplayTarget struct {
	client ReplayAPI
	given  []string
	dead   string                         // the address of the dead letters
	find   func(arn string) (home, error) // asks for a queue that is not given

	mu    sync.Mutex
	homes map[string]func() (home, error) // by ARN; what was found, or why nothing was
}

// home is a queue that letters came from.
type home struct {
	url string
	own bool // it is given, or its redrive policy names the dead letters' queue: a letter need not be vouched for
}

var _ replay.Target = (*ReplayTarget)(nil)

// NewReplayTarget returns a target for replay.Run that sends each message back to the queue it came from, if that is one of
// queueURLs. With none, a queue is found by its name and account (sqs:GetQueueUrl), and sent to only if it has the ARN that
// the message came from (sqs:GetQueueAttributes): the client may be of another region. A dry run asks as well.
func NewReplayTarget(client ReplayAPI, queueURLs ...string) (*ReplayTarget, error) {
	if engine.IsNil(client) {
		return nil, errors.New("sqs: NewReplayTarget: the client must not be nil")
	}
	for i, u := range queueURLs {
		if strings.TrimSpace(u) == "" {
			return nil, fmt.Errorf("sqs: NewReplayTarget: queue URL %d of %d must not be empty", i+1, len(queueURLs))
		}
	}
	return &ReplayTarget{client: client, given: slices.Clone(queueURLs)}, nil
}

// String names the queues.
func (t *ReplayTarget) String() string {
	if len(t.given) == 0 {
		return "the source queues"
	}
	return strings.Join(t.given, ", ")
}

// Most implements replay.Target.
func (t *ReplayTarget) Most() int { return maxBatch }

// End implements replay.Target.
func (t *ReplayTarget) End(context.Context) error { return nil }

// Begin looks the given queues up. The dead letters' own queue is refused.
func (t *ReplayTarget) Begin(ctx context.Context, b replay.Begin) error {
	t.dead, t.homes = b.Source, map[string]func() (home, error){}
	t.find = func(arn string) (home, error) { return t.ask(context.WithoutCancel(ctx), arn) }
	for _, url := range t.given {
		arn, _, err := t.look(ctx, url)
		if err != nil {
			return fmt.Errorf("sqs: queue %q: %w", url, err)
		}
		if arn == "" || arn == t.dead {
			return fmt.Errorf("sqs: the target must not be the dead-letter queue itself, is %q", url)
		}
		t.homes[arn] = func() (home, error) { return home{url, true}, nil }
	}
	return nil
}

// look asks for a queue's ARN, and whether its redrive policy names the dead letters' queue.
func (t *ReplayTarget) look(ctx context.Context, url string) (arn string, redrives bool, err error) {
	out, err := attributesOf(ctx, t.client, url, types.QueueAttributeNameQueueArn, types.QueueAttributeNameRedrivePolicy)
	if err != nil {
		return "", false, err
	}
	var policy redrive
	text := out.Attributes[string(types.QueueAttributeNameRedrivePolicy)]
	redrives = json.Unmarshal([]byte(text), &policy) == nil && policy.Target == t.dead && t.dead != ""
	return out.Attributes[string(types.QueueAttributeNameQueueArn)], redrives, nil
}

// Accept implements replay.Target.
func (t *ReplayTarget) Accept(l *replay.Letter) error {
	arn := l.Message.Source
	q, err := t.resolve(arn)
	switch {
	case err != nil:
		return err
	case !l.Vouched && !q.own:
		return fmt.Errorf("only the letter itself says that it came from %s, whose redrive policy does not name this dead-letter "+
			"queue: name the queue as the target, or as Config.Origin", arn)
	case arn == t.dead:
		return errors.New("it came from the dead-letter queue itself")
	case l.Stamp == nil:
		return errors.New("its identity cannot be told in a stamp: it can be replayed in place")
	}
	_, err = SourceInput(&l.DeadLetter, arn)
	if errors.Is(err, ErrNoRoom) {
		return fmt.Errorf("%w: it can be replayed in place", err)
	}
	return err
}

// resolve finds a queue by its ARN. Each is asked for once in a run: all letters of a queue go, or none does.
func (t *ReplayTarget) resolve(arn string) (home, error) {
	t.mu.Lock()
	found, asked := t.homes[arn]
	if _, _, ok := splitARN(arn); !asked && (!ok || len(t.given) > 0) {
		t.mu.Unlock()
		return home{}, fmt.Errorf("%w: %.200q", replay.ErrElsewhere, arn)
	}
	if !asked {
		found = sync.OnceValues(func() (home, error) { return t.find(arn) })
		t.homes[arn] = found
	}
	t.mu.Unlock()
	return found()
}

// ask asks for a queue, again as long as that may help. Names are found in the client's region only, where another queue may
// have the name.
func (t *ReplayTarget) ask(ctx context.Context, arn string) (q home, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	var is string
	for tries := 1; ; tries++ {
		if q, is, err = t.named(ctx, arn); err == nil {
			break
		}
		if kindOf(err).final() || tries == replayTries || ctx.Err() != nil {
			return home{}, fmt.Errorf("queue %s cannot be found with this client: %w", arn, err)
		}
		engine.Sleep(ctx, retryDelay(tries))
	}
	if is != arn {
		return home{}, fmt.Errorf("%w: %s, whose name is that of %q for this client: use one of its own region", replay.ErrElsewhere, arn, is)
	}
	return q, nil
}

// named looks for a queue by the name and account of an ARN, and says which ARN it has.
func (t *ReplayTarget) named(ctx context.Context, arn string) (q home, is string, err error) {
	account, name, _ := splitARN(arn)
	if q.url, err = urlOf(ctx, t.client, account, name); err != nil {
		return home{}, "", err
	}
	is, q.own, err = t.look(ctx, q.url)
	return q, is, err
}

// copied is one letter on its way.
type copied struct {
	result *replay.Result
	lane   string
	in     *sqs.SendMessageInput
	size   int
}

// Send implements replay.Target. Of one group, one message at a time is in a request: what is refused by itself must not be
// overtaken.
func (t *ReplayTarget) Send(ctx context.Context, letters []*replay.Letter) []replay.Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*callTimeout)
	defer cancel()
	results := make([]replay.Result, len(letters))
	var waiting []*copied
	for i, l := range letters {
		c := &copied{result: &results[i]}
		q, err := t.resolve(l.Message.Source)
		if err == nil {
			c.in, err = SourceInput(&l.DeadLetter, q.url)
		}
		if err != nil {
			results[i].Err = err
			continue
		}
		c.size = sizeOf(c.in)
		if strings.HasSuffix(q.url, ".fifo") {
			c.lane = q.url + " " + aws.ToString(c.in.MessageGroupId)
		}
		waiting = append(waiting, c)
	}
	failed := map[string]bool{}
	for len(waiting) > 0 {
		var batch []*copied
		batch, waiting = pick(waiting)
		t.sendAll(ctx, batch)
		for _, c := range batch {
			failed[c.lane] = failed[c.lane] || c.lane != "" && c.result.Err != nil
		}
		waiting = slices.DeleteFunc(waiting, func(c *copied) bool {
			if failed[c.lane] {
				c.result.Reason = replay.Behind
			}
			return failed[c.lane]
		})
	}
	return results
}

// pick takes what goes with one request: of one queue, at most ten, at most what a request may have, one of each group.
func pick(waiting []*copied) (batch, rest []*copied) {
	bytes, lanes := 0, map[string]bool{}
	for _, c := range waiting {
		other := len(batch) > 0 && *c.in.QueueUrl != *batch[0].in.QueueUrl
		if other || len(batch) == maxBatch || len(batch) > 0 && bytes+c.size > maxMessage || lanes[c.lane] {
			rest = append(rest, c)
			lanes[c.lane] = lanes[c.lane] || c.lane != ""
			continue
		}
		batch, bytes = append(batch, c), bytes+c.size
		lanes[c.lane] = c.lane != ""
	}
	return batch, rest
}

// sendAll sends one request, again as long as that may help. What was sent twice for an answer that was lost is harmless:
// both copies have one stamp.
func (t *ReplayTarget) sendAll(ctx context.Context, batch []*copied) {
	for tries := 1; len(batch) > 0; tries++ {
		out, err := t.client.SendMessageBatch(ctx, request(batch))
		var rest []*copied
		if err != nil {
			for _, c := range batch {
				c.result.Err = fmt.Errorf("sqs: queue %q: %w", *batch[0].in.QueueUrl, err)
			}
			if !kindOf(err).final() {
				rest = batch
			}
		} else {
			rest = sent(batch, out)
		}
		if tries == replayTries || ctx.Err() != nil {
			return
		}
		if batch = rest; len(batch) > 0 {
			engine.Sleep(ctx, retryDelay(tries))
		}
	}
}

func request(batch []*copied) *sqs.SendMessageBatchInput {
	in := &sqs.SendMessageBatchInput{QueueUrl: batch[0].in.QueueUrl}
	for i, c := range batch {
		in.Entries = append(in.Entries, entry(i, c.in))
	}
	return in
}

// entry is the message of a request as the one at i of a batch.
func entry(i int, in *sqs.SendMessageInput) types.SendMessageBatchRequestEntry {
	return types.SendMessageBatchRequestEntry{
		Id: aws.String(strconv.Itoa(i)), MessageBody: in.MessageBody, MessageAttributes: in.MessageAttributes,
		MessageSystemAttributes: in.MessageSystemAttributes, MessageGroupId: in.MessageGroupId,
		MessageDeduplicationId: in.MessageDeduplicationId,
	}
}

// sent notes an answer, and returns what may be tried again. Only what the queue says it has is sent.
func sent(batch []*copied, out *sqs.SendMessageBatchOutput) (rest []*copied) {
	for i := range out.Successful {
		if at, ok := index(out.Successful[i].Id, len(batch)); ok {
			*batch[at].result = replay.Result{Outcome: replay.Sent}
		}
	}
	for i := range out.Failed {
		f := &out.Failed[i]
		if at, ok := index(f.Id, len(batch)); ok {
			c := batch[at]
			c.result.Err = fmt.Errorf("sqs: queue %q: %s: %s", *c.in.QueueUrl, aws.ToString(f.Code), aws.ToString(f.Message))
			if !f.SenderFault {
				rest = append(rest, c)
			}
		}
	}
	for _, c := range batch {
		if c.result.Outcome != replay.Sent && c.result.Err == nil {
			c.result.Err = fmt.Errorf("sqs: queue %q: the answer does not speak of the message", *c.in.QueueUrl)
		}
	}
	return rest
}
