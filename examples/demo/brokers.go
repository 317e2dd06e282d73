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
	queueName  = "orders"
	topicName  = "orders"
	groupName  = "payments"
	partitions = 4
	// idHeader carries the order's id beside the body, so that a message is known even if its body is not JSON.
	idHeader = "order-id"
)

// brokers are the two servers in this process, and clients of them.
type brokers struct {
	sqs      *sqstest.Server
	queueURL string
	sqsAPI   *awssqs.Client

	cluster *kfake.Cluster
	kafka   *kgo.Client
}

func startBrokers() (_ *brokers, err error) {
	b := &brokers{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.sqs, err = sqstest.New(nil); err != nil {
		return nil, err
	}
	dlq, err := b.sqs.CreateQueue(queueName+"-dlq", nil)
	if err != nil {
		return nil, err
	}
	b.sqsAPI = b.sqs.Client()
	got, err := b.sqsAPI.GetQueueAttributes(context.Background(), &awssqs.GetQueueAttributesInput{
		QueueUrl: &dlq, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return nil, err
	}
	redrive := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":100}`, got.Attributes["QueueArn"])
	if b.queueURL, err = b.sqs.CreateQueue(queueName, map[string]string{"RedrivePolicy": redrive}); err != nil {
		return nil, err
	}
	if b.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topicName)); err != nil {
		return nil, err
	}
	b.kafka, err = kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.DefaultProduceTopic(topicName))
	return b, err
}

func (b *brokers) close() {
	if b.kafka != nil {
		b.kafka.Close()
	}
	if b.cluster != nil {
		b.cluster.Close()
	}
	if b.sqs != nil {
		b.sqs.Close()
	}
}

// sendSQS sends in batches of 10, the most that SQS takes.
func (b *brokers) sendSQS(ctx context.Context, messages []message) error {
	for len(messages) > 0 {
		batch := messages[:min(10, len(messages))]
		messages = messages[len(batch):]
		in := &awssqs.SendMessageBatchInput{QueueUrl: &b.queueURL}
		for i, m := range batch {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(m.body)),
				MessageAttributes: map[string]types.MessageAttributeValue{
					idHeader: {DataType: aws.String("String"), StringValue: aws.String(m.id)},
				},
			})
		}
		out, err := b.sqsAPI.SendMessageBatch(ctx, in)
		if err != nil {
			return err
		}
		if len(out.Failed) > 0 {
			return fmt.Errorf("the queue refused %d of %d messages", len(out.Failed), len(batch))
		}
	}
	return nil
}

func (b *brokers) sendKafka(ctx context.Context, messages []message) error {
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{
			Key: []byte(m.id), Value: m.body, Headers: []kgo.RecordHeader{{Key: idHeader, Value: []byte(m.id)}},
		}
	}
	return b.kafka.ProduceSync(ctx, records...).FirstErr()
}

// empty says whether both brokers have nothing left: every message deleted, every offset committed.
func (b *brokers) empty(ctx context.Context) (bool, error) {
	if b.sqs.Counts(queueName).Depth() > 0 {
		return false, nil
	}
	adm := kadm.NewClient(b.kafka)
	ends, err := adm.ListEndOffsets(ctx, topicName)
	if err == nil {
		err = ends.Error()
	}
	committed, fetchErr := adm.FetchOffsets(ctx, groupName)
	if err := errors.Join(err, fetchErr); err != nil {
		return false, err
	}
	finished := true
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := committed.Lookup(end.Topic, end.Partition)
		finished = finished && (end.Offset == 0 || ok && at.At == end.Offset)
	})
	return finished, nil
}
