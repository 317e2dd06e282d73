package sqs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// DeadLetterAPI is what a [DeadLetterQueue] uses of an SQS client; *sqs.Client of aws-sdk-go-v2 implements it. The IAM
// actions on the queue are sqs:SendMessage and, optional, sqs:GetQueueAttributes.
type DeadLetterAPI interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

var _ DeadLetterAPI = (*sqs.Client)(nil)

// DeadLetterQueue forwards messages that failed for good to an SQS queue: Options.DeadLetter of a worker of any broker.
// Build it with [NewDeadLetterQueue].
//
// The copy has the message's body and attributes, the stamp (consumer.StampName) and the envelope ([EnvelopeName]).
// [ParseDeadLetter] makes the message of it again, to the byte:
//
//   - Attributes beyond the eighth, and headers of Kafka, which may repeat, are in the envelope.
//   - A body that SQS does not take (nil, empty, not UTF-8, or with characters that XML forbids) is in base64, or a "-"
//     stands for it; the envelope says so.
//   - A copy that is too large goes without the error's text, then with the stamp alone. One that is too large even so is
//     in the ledger's archive only, marked as not sent.
//
// The queue may be standard or FIFO, whatever the source is (SQS's own redrive policy wants the same type). A FIFO queue
// gets the message's group, else its Kafka key, else a group of its own; a publish whose answer was lost, and that is
// repeated within five minutes, is one message there. On a standard queue it may be two, with one stamp. After a crash the
// message is claimed anew: if it fails again, that is another failure, whose dead letter carries a higher token.
//
// The queue may be that of the source's redrive policy too. A console redrive, or a move task, of what we sent there must
// name its destination: SQS knows the source only of what it moved itself. The source's worker recognises the copy by its
// stamp, and takes out of the envelope what had no room beside it.
type DeadLetterQueue struct {
	client DeadLetterAPI
	url    string
	fifo   bool
}

var (
	_ consumer.DeadLetterer = (*DeadLetterQueue)(nil)
	_ consumer.Retainer     = (*DeadLetterQueue)(nil)
)

// NewDeadLetterQueue returns a target for Options.DeadLetter. The client is the caller's and may be shared. Nothing
// connects before the worker runs.
func NewDeadLetterQueue(client DeadLetterAPI, queueURL string) (*DeadLetterQueue, error) {
	switch {
	case engine.IsNil(client):
		return nil, errors.New("sqs: NewDeadLetterQueue: the client must not be nil")
	case strings.TrimSpace(queueURL) == "":
		return nil, errors.New("sqs: NewDeadLetterQueue: the queue URL must not be empty")
	}
	return &DeadLetterQueue{client: client, url: queueURL, fifo: strings.HasSuffix(queueURL, ".fifo")}, nil
}

// String names the queue by its URL.
func (q *DeadLetterQueue) String() string { return q.url }

// Source returns the queue's ARN.
func (q *DeadLetterQueue) Source(ctx context.Context) (string, error) {
	out, err := attributesOf(ctx, q.client, q.url, types.QueueAttributeNameQueueArn)
	if err != nil {
		return "", fmt.Errorf("sqs: dead-letter queue %q: %w", q.url, err)
	}
	return out.Attributes[string(types.QueueAttributeNameQueueArn)], nil
}

// Retention returns the queue's MessageRetentionPeriod; SQS's longest, 14 days, if it cannot be read.
func (q *DeadLetterQueue) Retention(ctx context.Context) (time.Duration, error) {
	out, err := attributesOf(ctx, q.client, q.url, types.QueueAttributeNameMessageRetentionPeriod)
	if err != nil {
		return maxRetention, nil
	}
	keeps, _ := retentionOf(out.Attributes)
	return keeps, nil
}

// Publish sends one dead letter. What the queue refuses for the message's own sake (its size, its characters) is
// Terminal.
func (q *DeadLetterQueue) Publish(ctx context.Context, d *consumer.DeadLetter) error {
	refused := fmt.Errorf("it must be at most %d bytes", maxMessage)
	for how := whole; how <= bare && len(d.Message.Body) <= maxMessage; how++ { // of a larger one no copy is made
		in, ok, err := seal(d, how, q.fifo)
		if err != nil {
			return consumer.Terminal(err)
		}
		if !ok || sizeOf(in) > maxMessage {
			continue
		}
		q.address(in, d)
		if _, err = q.client.SendMessage(ctx, in); err == nil {
			return nil
		}
		if !isRefusal(err) {
			return fmt.Errorf("sqs: dead-letter queue %q: %w", q.url, err)
		}
		refused = err
	}
	return consumer.Terminal(fmt.Errorf("sqs: dead-letter queue %q does not take the message: %w", q.url, refused))
}

// address says where a copy goes. A repeated publish of one failure, by one claim, is one message of a FIFO queue.
func (q *DeadLetterQueue) address(in *sqs.SendMessageInput, d *consumer.DeadLetter) {
	in.QueueUrl = &q.url
	if q.fifo {
		in.MessageGroupId = aws.String(groupFor(&d.Message))
		in.MessageDeduplicationId = aws.String(dedupID(d, "dead letter"))
	}
}

// isRefusal says whether SQS refuses a message for its own sake.
func isRefusal(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	switch strings.TrimSuffix(strings.TrimPrefix(api.ErrorCode(), "AWS.SimpleQueueService."), "Exception") {
	case "InvalidParameterValue", "InvalidMessageContents", "MessageTooLong", "RequestEntityTooLarge":
		return true
	}
	return false
}

// maxGroup is the longest MessageGroupId and MessageDeduplicationId (API reference, SendMessage).
const maxGroup = 128

// groupFor is the FIFO group of a copy: the message's own, so that its order survives; else its Kafka key's.
func groupFor(m *consumer.Message) string {
	switch {
	case isGroup(m.Group):
		return m.Group
	case m.Key == nil:
		return digest(m.Source, "id", m.ID)
	case isGroup(string(m.Key)):
		return string(m.Key)
	}
	return digest(m.Source, "key", string(m.Key))
}

func isGroup(s string) bool {
	return s != "" && len(s) <= maxGroup && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// dedupID is the MessageDeduplicationId of a copy made for a purpose: the same for one failure, another for the next one.
func dedupID(d *consumer.DeadLetter, purpose string) string {
	token := uint64(0)
	if d.Stamp != nil {
		token = d.Stamp.Token
	}
	return digest(purpose, d.Message.Source, d.Message.ID, string(d.Delivery), strconv.FormatUint(token, 10))
}

// digest is SHA-256 over length-prefixed parts, in hexadecimal digits.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// SourceInput makes the request that sends a dead letter back to its source queue, at queueURL: body, attributes, group
// and trace header as they were, with its stamp, by which the copy meets its own row. Sent twice, the second copy meets the
// first one's row; in a FIFO queue it is dropped for five minutes.
//
// Without a stamp (see DeadLetter.Stamp) the copy is a message of its own. An error for which errors.Is([ErrNoRoom]) holds
// says that ten attributes of its own, or its size, leave no room for the stamp: such a message can be replayed in place.
// Any other error says why the message is none that SQS takes.
func SourceInput(d *consumer.DeadLetter, queueURL string) (*sqs.SendMessageInput, error) {
	form, body := formOf(d.Message.Body)
	if form != bodyPlain {
		return nil, fmt.Errorf("sqs: message %q: its body is none that SQS takes: nil, empty or not text", d.Message.ID)
	}
	in := &sqs.SendMessageInput{QueueUrl: &queueURL, MessageBody: &body, MessageAttributes: map[string]types.MessageAttributeValue{}}
	for i := range d.Message.Headers {
		h := &d.Message.Headers[i]
		if h.Name == consumer.StampName && d.Stamp != nil {
			continue
		}
		if isTrace(h) {
			in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
				string(traceHeader): {DataType: aws.String("String"), StringValue: aws.String(string(h.Value))},
			}
			continue
		}
		value, ok := attributeOf(h)
		if _, taken := in.MessageAttributes[h.Name]; !ok || taken {
			return nil, fmt.Errorf("sqs: message %q: its header %.100q is no attribute that SQS takes", d.Message.ID, h.Name)
		}
		in.MessageAttributes[h.Name] = value
	}
	if d.Stamp != nil {
		if err := setStamp(in, *d.Stamp); err != nil {
			return nil, fmt.Errorf("sqs: message %q: %w", d.Message.ID, err)
		}
	}
	if n := sizeOf(in); n > maxMessage {
		return nil, fmt.Errorf("sqs: message %q: %w: at most %d bytes with it, it would be %d", d.Message.ID, ErrNoRoom, maxMessage, n)
	}
	if strings.HasSuffix(queueURL, ".fifo") {
		in.MessageGroupId = aws.String(groupFor(&d.Message))
		in.MessageDeduplicationId = aws.String(dedupID(d, "replay"))
	} else if d.Message.Group != "" { // a fair queue
		in.MessageGroupId = aws.String(d.Message.Group)
	}
	return in, nil
}
