package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

var format = fmt.Sprintf

// broker is a queue or topic of an arm with its dead letters', as the test sees it: beside all faults.
type broker interface {
	orders(*plan.Orders)
	// send sends bodies; the i-th is message first+i. Of those in doubt nobody knows whether they are there.
	send(ctx context.Context, first int, bodies []string) (doubt []string, err error)
	// answers says why it cannot be used; nil: it can.
	answers(ctx context.Context) error
	// left says what is not acknowledged; empty: nothing.
	left(ctx context.Context) string
	// deadLetters counts the dead letters by body.
	deadLetters(ctx context.Context) (map[string]int, error)
}

// log is a Kafka topic.
type log struct {
	client      *kgo.Client
	admin       *kadm.Client
	brokers     []string
	topic, dead string
	group       string
}

const partitions = 6

func newLog(t *testing.T, name string, brokers []string) *log {
	t.Helper()
	l := &log{brokers: brokers, topic: name, dead: name + ".dead", group: name}
	var err error
	l.client, err = kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(l.topic),
		kgo.ConsumeTopics(l.dead), kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	l.admin = kadm.NewClient(l.client)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = l.admin.DeleteTopics(ctx, l.topic, l.dead) // the broker may be gone
		l.client.Close()
	})
	if _, err := l.admin.CreateTopic(t.Context(), partitions, int16(len(brokers)), nil, l.topic); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.CreateTopic(t.Context(), 1, int16(len(brokers)), nil, l.dead); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *log) orders(o *plan.Orders) {
	o.Brokers, o.Topic, o.Group, o.Dead, o.Window = l.brokers, l.topic, l.group, l.dead, cmp.Or(o.Window, 6*time.Second)
}

func (l *log) send(ctx context.Context, first int, bodies []string) ([]string, error) {
	records := make([]*kgo.Record, len(bodies))
	for i, b := range bodies {
		records[i] = &kgo.Record{Key: []byte(plan.Group(first + i)), Value: []byte(b)}
	}
	return nil, l.client.ProduceSync(ctx, records...).FirstErr() // the client is idempotent
}

func (l *log) committed(ctx context.Context) (map[int32]int64, error) {
	offsets, err := l.admin.FetchOffsets(ctx, l.group)
	if err != nil {
		return nil, err
	}
	at := map[int32]int64{}
	for _, o := range offsets.Offsets()[l.topic] {
		at[o.Partition] = o.At
	}
	return at, nil
}

func (l *log) answers(ctx context.Context) error {
	_, err := l.committed(ctx)
	return err
}

func (l *log) left(ctx context.Context) string {
	at, err := l.committed(ctx)
	if err != nil {
		return err.Error()
	}
	ends, err := l.admin.ListEndOffsets(ctx, l.topic)
	if err != nil {
		return err.Error()
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset - max(at[o.Partition], 0) })
	if left != 0 {
		return fmt.Sprintf("%d records are not committed", left)
	}
	return ""
}

func (l *log) deadLetters(ctx context.Context) (map[string]int, error) {
	ends, err := l.admin.ListEndOffsets(ctx, l.dead)
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup(l.dead, 0)
	got := map[string]int{}
	for next := int64(0); next < end.Offset; {
		fetches := l.client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("at offset %d of %d dead letters: %w", next, end.Offset, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got[string(r.Value)]++
			next = r.Offset + 1
		})
	}
	return got, nil
}

// queue is an SQS queue.
type queue struct {
	client    *awssqs.Client
	endpoint  string
	url, dead string
	fifo      bool
}

func newQueue(t *testing.T, name, endpoint string, fifo bool) *queue {
	t.Helper()
	q := &queue{endpoint: endpoint, fifo: fifo, client: awssqs.New(awssqs.Options{
		HTTPClient:   sqstest.HTTPClient(),
		BaseEndpoint: aws.String(endpoint), Region: "elasticmq",
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})}
	create := func(name string) string {
		attributes := map[string]string{}
		if fifo {
			name += ".fifo"
			attributes["FifoQueue"] = "true"
		}
		out, err := q.client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_, _ = q.client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: out.QueueUrl})
		})
		return *out.QueueUrl
	}
	q.url, q.dead = create(name), create(name+"_dead")
	return q
}

func (q *queue) orders(o *plan.Orders) {
	o.Queue, o.Client, o.Group, o.Dead, o.Window = q.url, q.endpoint, "chaos", q.dead, cmp.Or(o.Window, 10*time.Second)
}

func (q *queue) send(ctx context.Context, first int, bodies []string) (doubt []string, err error) {
	const most = 10 // of one batch
	once := func(o *awssqs.Options) {
		if !q.fifo { // which knows a batch that is sent again
			o.Retryer = aws.NopRetryer{}
		}
	}
	for ; len(bodies) > 0; first, bodies = first+most, bodies[min(most, len(bodies)):] {
		var batch []types.SendMessageBatchRequestEntry
		for i, b := range bodies[:min(most, len(bodies))] {
			e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(b)}
			if q.fifo {
				e.MessageGroupId = aws.String(plan.Group(first + i))
				e.MessageDeduplicationId = aws.String(strconv.Itoa(first + i))
			}
			batch = append(batch, e)
		}
		out, err := q.client.SendMessageBatch(ctx, &awssqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: batch}, once)
		switch {
		case err != nil && q.fifo:
			return doubt, err
		case err != nil: // the queue may have them all the same
			doubt = append(doubt, bodies[:len(batch)]...)
		case len(out.Failed) > 0:
			return doubt, errors.New(aws.ToString(out.Failed[0].Message))
		}
	}
	return doubt, nil
}

func (q *queue) answers(ctx context.Context) error {
	_, err := q.client.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: aws.String(path.Base(q.url))})
	return err
}

func (q *queue) left(ctx context.Context) string {
	out, err := q.client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return err.Error()
	}
	visible, hidden := out.Attributes["ApproximateNumberOfMessages"], out.Attributes["ApproximateNumberOfMessagesNotVisible"]
	if visible != "0" || hidden != "0" {
		return fmt.Sprintf("the queue holds %s messages, and %s in flight", visible, hidden)
	}
	return ""
}

// deadLetters takes the dead letters out of their queue. A FIFO queue hands a group on only once its head is deleted.
func (q *queue) deadLetters(ctx context.Context) (map[string]int, error) {
	got := map[string]int{}
	for empty := 0; empty < 2; {
		out, err := q.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: &q.dead, MaxNumberOfMessages: 10})
		if err != nil {
			return nil, err
		}
		if len(out.Messages) == 0 {
			empty++
			continue
		}
		for _, m := range out.Messages {
			got[aws.ToString(m.Body)]++
			_, err := q.client.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: &q.dead, ReceiptHandle: m.ReceiptHandle})
			if err != nil {
				return nil, err
			}
		}
	}
	return got, nil
}
