package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

const (
	orders     = "orders"      // queue and topic
	dead       = "orders-dead" // what failed
	group      = "payments"    // the consumer's name
	partitions = 4
)

// brokers are the two servers in this process, and clients of them.
type brokers struct {
	server   *sqstest.Server
	sqs      *awssqs.Client
	queueURL string
	deadURL  string
	cluster  *kfake.Cluster
	kafka    *kgo.Client
	seeds    kgo.Opt
}

func startBrokers(ctx context.Context) (_ *brokers, err error) {
	b := &brokers{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.server, err = sqstest.New(nil); err != nil {
		return nil, err
	}
	b.sqs = b.server.Client()
	if b.deadURL, err = b.server.CreateQueue(dead, nil); err != nil {
		return nil, err
	}
	got, err := b.sqs.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{
		QueueUrl: &b.deadURL, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return nil, err
	}
	redrive := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":100}`, got.Attributes["QueueArn"])
	if b.queueURL, err = b.server.CreateQueue(orders, map[string]string{"RedrivePolicy": redrive}); err != nil {
		return nil, err
	}
	if b.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, orders, dead)); err != nil {
		return nil, err
	}
	b.seeds = kgo.SeedBrokers(b.cluster.ListenAddrs()...)
	b.kafka, err = kgo.NewClient(b.seeds)
	return b, err
}

func (b *brokers) close() {
	if b.kafka != nil {
		b.kafka.Close()
	}
	if b.cluster != nil {
		b.cluster.Close()
	}
	if b.server != nil {
		b.server.Close()
	}
}

// send sends n orders to each broker.
func (b *brokers) send(ctx context.Context, n int) error {
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Topic: orders, Key: fmt.Appendf(nil, "customer-%d", i%20), Value: []byte(orderID("kafka", i))})
	}
	err := b.kafka.ProduceSync(ctx, records...).FirstErr()
	for i := 0; i < n && err == nil; i += 10 {
		in := &awssqs.SendMessageBatchInput{QueueUrl: &b.queueURL}
		for j := i; j < min(i+10, n); j++ {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(j)), MessageBody: aws.String(orderID("sqs", j)),
			})
		}
		_, err = b.sqs.SendMessageBatch(ctx, in)
	}
	return err
}

func orderID(broker string, n int) string { return fmt.Sprintf("%s-order-%04d", broker, n) }

// byHand is what a colleague does who sends dead letters again and leaves them where they are. Copies keep their
// attributes and headers, and so their stamps.
func (b *brokers) byHand(ctx context.Context, queued, logged int) error {
	for sent := 0; sent < queued; {
		got, err := b.sqs.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
			QueueUrl: &b.deadURL, MaxNumberOfMessages: int32(min(10, queued-sent)), VisibilityTimeout: 60, MessageAttributeNames: []string{"All"},
		})
		if err != nil {
			return err
		}
		for _, m := range got.Messages {
			_, err := b.sqs.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: &b.queueURL, MessageBody: m.Body, MessageAttributes: m.MessageAttributes})
			if err != nil {
				return err
			}
			sent++
		}
	}
	b.server.ExpireVisibility(dead)
	return b.copyRecords(ctx, logged)
}

func (b *brokers) copyRecords(ctx context.Context, n int) error {
	reader, err := kgo.NewClient(b.seeds, kgo.ConsumeTopics(dead))
	if err != nil {
		return err
	}
	defer reader.Close()
	var copies []*kgo.Record
	for len(copies) < n {
		fetched := reader.PollRecords(ctx, n-len(copies))
		if err := fetched.Err(); err != nil {
			return err
		}
		for _, r := range fetched.Records() {
			copies = append(copies, &kgo.Record{Topic: orders, Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
	}
	return b.kafka.ProduceSync(ctx, copies...).FirstErr()
}

// deadLetters counts what is in the dead-letter queue and in the dead-letter topic.
func (b *brokers) deadLetters(ctx context.Context) (queued, logged int, err error) {
	ends, err := kadm.NewClient(b.kafka).ListEndOffsets(ctx, dead)
	if err != nil {
		return 0, 0, err
	}
	ends.Each(func(o kadm.ListedOffset) { logged += int(o.Offset) })
	return b.server.Counts(dead).Depth(), logged, nil
}

// idle says that the sources have nothing more to do: the queue is empty, and the group has committed its topic's end.
func (b *brokers) idle(ctx context.Context) (bool, error) {
	adm := kadm.NewClient(b.kafka)
	ends, err := adm.ListEndOffsets(ctx, orders)
	committed, fetched := adm.FetchOffsets(ctx, group)
	if err := errors.Join(err, fetched); err != nil {
		return false, err
	}
	idle := b.server.Counts(orders).Depth() == 0
	ends.Each(func(o kadm.ListedOffset) {
		at, ok := committed.Lookup(o.Topic, o.Partition)
		idle = idle && (o.Offset == 0 || ok && at.At >= o.Offset)
	})
	return idle, nil
}
