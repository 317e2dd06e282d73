package brokers_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// broker is a source of messages under test.
type broker interface {
	send(t *testing.T, m message)
	worker(t *testing.T, l ledger.Ledger, h consumer.Handler, o consumer.Options) consumer.Worker
	// left says what is not acknowledged; empty: nothing.
	left(t *testing.T) string
}

// message is what both brokers can carry.
type message struct {
	body    []byte
	headers map[string]string
}

// brokers makes a fresh source of each kind.
var brokers = map[string]func(t *testing.T) broker{
	"sqstest":   func(t *testing.T) broker { return newQueue(t, sqstest.Start(t, nil).URL) },
	"ElasticMQ": func(t *testing.T) broker { return newQueue(t, services.ElasticMQ(t)) },
	"kfake":     func(t *testing.T) broker { return newFake(t, kafka.AuditRanges) },
	"Kafka":     func(t *testing.T) broker { return newTopic(t, services.Kafka(t), kafka.AuditRanges) },

	"kfake, rows": func(t *testing.T) broker { return newFake(t, kafka.AuditRows) },
	"Kafka, rows": func(t *testing.T) broker { return newTopic(t, services.Kafka(t), kafka.AuditRows) },
}

// queue is a standard SQS queue.
type queue struct {
	client *awssqs.Client
	url    string
}

func newQueue(t *testing.T, endpoint string) broker {
	t.Helper()
	client := awssqs.New(awssqs.Options{
		HTTPClient:   sqstest.HTTPClient(),
		BaseEndpoint: aws.String(endpoint), Region: "elasticmq",
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
	out, err := client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: aws.String(services.Name(t))})
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{client, *out.QueueUrl}
	t.Cleanup(func() {
		_, _ = client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: &q.url})
	})
	return q
}

func (q *queue) send(t *testing.T, m message) {
	t.Helper()
	in := &awssqs.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String(string(m.body))}
	for name, value := range m.headers {
		if in.MessageAttributes == nil {
			in.MessageAttributes = map[string]types.MessageAttributeValue{}
		}
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
	}
	if _, err := q.client.SendMessage(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

func (q *queue) worker(t *testing.T, l ledger.Ledger, h consumer.Handler, o consumer.Options) consumer.Worker {
	t.Helper()
	o.Name = "conformance"
	w, err := sqs.NewWorker(q.client, q.url, l, h, &sqs.Config{
		Options: o, VisibilityTimeout: 5 * time.Second, WaitTime: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (q *queue) left(t *testing.T) string {
	t.Helper()
	out, err := q.client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return err.Error()
	}
	visible, hidden := out.Attributes["ApproximateNumberOfMessages"], out.Attributes["ApproximateNumberOfMessagesNotVisible"]
	if visible != "0" || hidden != "0" {
		return visible + " messages, and " + hidden + " in flight"
	}
	return ""
}

// topic is a Kafka topic with four partitions.
type topic struct {
	seeds  []string
	client *kgo.Client
	admin  *kadm.Client
	name   string
	group  string
	audit  kafka.Audit
	sent   int
}

func newFake(t *testing.T, audit kafka.Audit) broker {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return newTopic(t, cluster.ListenAddrs(), audit)
}

func newTopic(t *testing.T, seeds []string, audit kafka.Audit) broker {
	t.Helper()
	p := &topic{seeds: seeds, name: services.Name(t), group: services.Name(t), audit: audit}
	var err error
	if p.client, err = kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(p.name), kgo.ProducerBatchMaxBytes(2<<20),
		kgo.UnknownTopicRetries(-1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.client.Close)
	p.admin = kadm.NewClient(p.client)
	configs := map[string]*string{"max.message.bytes": kadm.StringPtr(strconv.Itoa(2 << 20)),
		"retention.ms": kadm.StringPtr("604800000")}
	if _, err := p.admin.CreateTopic(t.Context(), 4, 1, configs, p.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.admin.DeleteTopic(context.Background(), p.name) })
	return p
}

func (p *topic) send(t *testing.T, m message) {
	t.Helper()
	p.sent++
	r := &kgo.Record{Key: fmt.Appendf(nil, "key %d", p.sent), Value: m.body}
	for name, value := range m.headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	if err := p.client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (p *topic) worker(t *testing.T, l ledger.Ledger, h consumer.Handler, o consumer.Options) consumer.Worker {
	t.Helper()
	w, err := kafka.NewWorker([]kgo.Opt{
		kgo.SeedBrokers(p.seeds...), kgo.ConsumerGroup(p.group), kgo.ConsumeTopics(p.name),
	}, l, h, &kafka.Config{Options: o, Audit: p.audit, CommitInterval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (p *topic) left(t *testing.T) string {
	t.Helper()
	offsets, err := p.admin.FetchOffsets(t.Context(), p.group)
	if err != nil {
		return err.Error()
	}
	done := int64(0)
	offsets.Each(func(o kadm.OffsetResponse) { done += max(o.At, 0) })
	if left := int64(p.sent) - done; left > 0 {
		return fmt.Sprintf("%d records are not committed", left)
	}
	return ""
}
