package cases

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
	"github.com/ackledger/ackledger/sqs"
)

const (
	replayQueueGroup = "replay, ElasticMQ"
	replayTopicGroup = "replay, Kafka"
	resenders        = replay.DefaultConcurrency
	failedBy         = "bench" // the consumer, or group
)

func replayCases() []suite.Case {
	queue, topic := suite.Size{Full: 10_000, Quick: 2000}, suite.Size{Full: 40_000, Quick: 10_000}
	return []suite.Case{
		{Group: replayQueueGroup, Name: "bare re-send loop", N: queue, Run: replayQueue(resendQueue),
			Note: fmt.Sprintf("a dead-letter queue back to its source: %d loops of ReceiveMessage (10), SendMessageBatch, DeleteMessageBatch", resenders)},
		{Group: replayQueueGroup, Name: "ours, replay", N: queue, Run: replayQueue(replayQueueOurs),
			Note: "the same with package replay, default settings, PostgreSQL ledger: each row is looked up, each send audited before it is done"},
		{Group: replayTopicGroup, Name: "bare re-send loop", N: topic, Run: replayTopic(resendTopic),
			Note: "a dead-letter topic back to its source: poll, produce, wait for the poll's acknowledgements"},
		{Group: replayTopicGroup, Name: "ours, replay", N: topic, Run: replayTopic(replayTopicOurs),
			Note: "the same with package replay, default settings, PostgreSQL ledger"},
	}
}

// failedLetters makes n failed messages of a source in the ledger, and gives each one's dead letter to publish.
func failedLetters(ctx context.Context, l *rows, source string, n int, publish func(context.Context, *consumer.DeadLetter) error) error {
	owner, err := l.Join(ctx, time.Hour)
	if err != nil {
		return err
	}
	g, publishing := errgroup.WithContext(ctx)
	g.SetLimit(64)
	const step = 500
	for from := 0; from < n; from += step {
		letters, err := failed(ctx, owner, source, from, min(step, n-from))
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		for _, d := range letters {
			g.Go(func() error { return publish(publishing, d) })
		}
	}
	return errors.Join(g.Wait(), owner.Leave(ctx))
}

func failed(ctx context.Context, owner ledger.Owner, source string, from, n int) (letters []*consumer.DeadLetter, err error) {
	var entries []ledger.Entry
	for i := from; i < from+n; i++ {
		id, body := fmt.Sprint("order-", i), fmt.Appendf(nil, `{"order":%d,"x":"%s"}`, i, strings.Repeat("x", bodySize))
		stamp := consumer.NewStamp(source, id, body)
		stamp.Token = 1
		letters = append(letters, &consumer.DeadLetter{
			Message:  consumer.Message{ID: id, Source: source, Key: []byte(id), Body: body, Attempt: 10, SentAt: time.Now()},
			Delivery: []byte(id), Stamp: &stamp, Kind: ledger.KindExhausted, Consumer: failedBy, FailedAt: time.Now(),
		})
		entries = append(entries, ledger.Entry{Key: ledger.Key{Scope: replay.Scope(source, failedBy), ID: []byte(id)},
			Fingerprint: stamp.Fingerprint, Delivery: []byte(id), Window: 24 * time.Hour})
	}
	claims, err := owner.Claim(ctx, entries)
	if err != nil {
		return nil, err
	}
	var sets []ledger.Settlement
	for i, c := range claims {
		sets = append(sets, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Fingerprint: entries[i].Fingerprint, Dead: &ledger.Archive{
			Key: entries[i].Key, Fingerprint: entries[i].Fingerprint, Delivery: entries[i].Delivery, Kind: ledger.KindExhausted,
			Body: letters[i].Message.Body, Source: source, Attempts: 10, Sent: true, Keep: 24 * time.Hour,
		}})
	}
	errs, err := owner.Settle(ctx, sets)
	return letters, errors.Join(append(errs, err)...)
}

// queuePair is a dead-letter queue, and the one that its messages came from.
type queuePair struct {
	client       *awssqs.Client
	dead, source string // URLs
	ledger       *rows
	n            int
}

// replayQueue fills a dead-letter queue and has do empty it; the clock is the meter's.
func replayQueue(do func(context.Context, *queuePair, *meter) error) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		client, _, err := elasticMQ(ctx, r)
		if err != nil {
			return nil, err
		}
		p := &queuePair{client: client, n: r.N}
		if p.ledger, err = freshRows(ctx, r, 1); err != nil {
			return nil, err
		}
		for _, url := range []*string{&p.dead, &p.source} {
			made, err := client.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("bench-" + newName())})
			if err != nil {
				return nil, err
			}
			*url = *made.QueueUrl
			r.Cleanup(func() error {
				_, err := client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
				return err
			})
		}
		out, err := client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &p.source, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
		if err != nil {
			return nil, err
		}
		target, err := sqs.NewDeadLetterQueue(client, p.dead)
		if err != nil {
			return nil, err
		}
		if err := failedLetters(ctx, p.ledger, out.Attributes["QueueArn"], r.N, target.Publish); err != nil {
			return nil, err
		}
		m := newMeter(client, r.N)
		if err := do(ctx, p, m); err != nil {
			return nil, err
		}
		if left := m.left.Load(); left > 0 {
			return nil, fmt.Errorf("%d of %d dead letters are left", left, r.N)
		}
		return suite.Throughput(r.N, m.took), nil
	}
}

// resendQueue is what people write first.
func resendQueue(ctx context.Context, p *queuePair, m *meter) error {
	g, ctx := errgroup.WithContext(ctx)
	for range resenders {
		g.Go(func() error {
			for m.left.Load() > 0 {
				got, err := receive(ctx, m, p.dead)
				if err != nil {
					return err
				}
				if err := errors.Join(p.resend(ctx, got), remove(ctx, m, p.dead, got)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (p *queuePair) resend(ctx context.Context, messages []types.Message) error {
	if len(messages) == 0 {
		return nil
	}
	in := &awssqs.SendMessageBatchInput{QueueUrl: &p.source}
	for i := range messages {
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: messages[i].Body, MessageAttributes: messages[i].MessageAttributes,
		})
	}
	out, err := p.client.SendMessageBatch(ctx, in)
	if err == nil && len(out.Failed) > 0 {
		err = fmt.Errorf("send: %s", aws.ToString(out.Failed[0].Message))
	}
	return err
}

// replayClient is a client whose receives and deletes the meter sees.
type replayClient struct {
	*awssqs.Client
	meter *meter
}

// ReceiveMessage implements sqs.ReplayAPI.
func (c replayClient) ReceiveMessage(ctx context.Context, in *awssqs.ReceiveMessageInput, o ...func(*awssqs.Options)) (*awssqs.ReceiveMessageOutput, error) {
	return c.meter.ReceiveMessage(ctx, in, o...)
}

// DeleteMessageBatch implements sqs.ReplayAPI.
func (c replayClient) DeleteMessageBatch(ctx context.Context, in *awssqs.DeleteMessageBatchInput, o ...func(*awssqs.Options)) (*awssqs.DeleteMessageBatchOutput, error) {
	return c.meter.DeleteMessageBatch(ctx, in, o...)
}

func replayQueueOurs(ctx context.Context, p *queuePair, m *meter) error {
	client := replayClient{p.client, m}
	src, srcErr := sqs.NewReplaySource(client, p.dead, 0)
	dst, dstErr := sqs.NewReplayTarget(client, p.source)
	if err := errors.Join(srcErr, dstErr); err != nil {
		return err
	}
	return runReplay(ctx, p.ledger, src, dst, p.n)
}

func runReplay(ctx context.Context, l *rows, src replay.Source, dst replay.Target, n int) error {
	report, err := replay.Run(ctx, l, src, dst, replay.Config{By: ledger.By{Actor: "bench", Reason: "to measure"}})
	if err == nil && (report.Replayed != int64(n) || !report.Complete()) {
		err = fmt.Errorf("not all was replayed: %s", report.Text())
	}
	return err
}

// topicPair is a dead-letter topic, and the one that its records came from.
type topicPair struct {
	cluster      *cluster
	client       *kgo.Client // a producer
	dead, source string
	ledger       *rows
	n            int
}

// replayTopic fills a dead-letter topic and has do put its records back.
func replayTopic(do func(context.Context, *topicPair) error) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		c, err := kafkaServer(ctx, r)
		if err != nil {
			return nil, err
		}
		p := &topicPair{cluster: c, dead: "bench-" + newName(), source: "bench-" + newName(), n: r.N}
		if p.ledger, err = freshRows(ctx, r, 1); err != nil {
			return nil, err
		}
		if _, err := c.admin.CreateTopics(ctx, partitions, 1, nil, p.dead, p.source); err != nil {
			return nil, err
		}
		r.Cleanup(func() error { _, err := c.admin.DeleteTopics(context.Background(), p.dead, p.source); return err })
		if p.client, err = kgo.NewClient(kgo.SeedBrokers(c.brokers...)); err != nil {
			return nil, err
		}
		r.Cleanup(func() error { p.client.Close(); return nil })
		meta, err := kadm.NewClient(p.client).BrokerMetadata(ctx)
		if err != nil {
			return nil, err
		}
		target, err := kafka.NewDeadLetterTopic(p.client, p.dead)
		if err != nil {
			return nil, err
		}
		if err := failedLetters(ctx, p.ledger, kafka.SourceName(meta.Cluster, p.source), r.N, target.Publish); err != nil {
			return nil, err
		}
		if err := p.ledger.settled(ctx); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := do(ctx, p); err != nil {
			return nil, err
		}
		return suite.Throughput(r.N, time.Since(began)), nil
	}
}

// resendTopic is what people write first.
func resendTopic(ctx context.Context, p *topicPair) error {
	reader, err := kgo.NewClient(kgo.SeedBrokers(p.cluster.brokers...), kgo.ConsumeTopics(p.dead), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer reader.Close()
	for left := p.n; left > 0; {
		fetches := reader.PollRecords(ctx, 1000)
		if err := fetches.Err(); err != nil {
			return err
		}
		records := fetches.Records()
		for i, r := range records {
			records[i] = &kgo.Record{Topic: p.source, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
		}
		if err := p.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		left -= len(records)
	}
	return nil
}

func replayTopicOurs(ctx context.Context, p *topicPair) error {
	src, srcErr := kafka.NewReplaySource([]kgo.Opt{kgo.SeedBrokers(p.cluster.brokers...)}, p.dead)
	dst, dstErr := kafka.NewReplayTarget(p.client, &kafka.ReplayTargetOptions{Topics: []string{p.source}})
	if err := errors.Join(srcErr, dstErr); err != nil {
		return err
	}
	return runReplay(ctx, p.ledger, src, dst, p.n)
}
