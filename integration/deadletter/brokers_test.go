package deadletter_test

import (
	"context"
	"slices"
	"strings"
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

// place is a queue or a topic of the test's own: a source, a target, or both.
type place interface {
	// send sends a message that has everything that a message of the broker can have.
	send(t *testing.T)
	worker(t *testing.T, l ledger.Ledger, h consumer.Handler, o consumer.Options) consumer.Worker
	target(t *testing.T) consumer.DeadLetterer
	// letters reads n dead letters at least, and stays a moment for more.
	letters(t *testing.T, n int) []*consumer.DeadLetter
	// back sends a dead letter to this place, its source.
	back(t *testing.T, d *consumer.DeadLetter)
	// acknowledged says that nothing is left.
	acknowledged(t *testing.T) bool
	key(d *consumer.DeadLetter) ledger.Key
}

// brokers makes a fresh place of each kind: on servers in this process, and on real ones. Workers of Kafka hold records in
// ranges, or with ", rows" behind the kind as rows.
func brokers(t *testing.T, kind string) place {
	t.Helper()
	audit := kafka.AuditRanges
	kind, rows := strings.CutSuffix(kind, ", rows")
	if rows {
		audit = kafka.AuditRows
	}
	switch kind {
	case "sqstest":
		return newQueue(t, sqstest.Start(t, nil).URL, "")
	case "sqstest FIFO":
		return newQueue(t, sqstest.Start(t, nil).URL, ".fifo")
	case "ElasticMQ":
		return newQueue(t, services.ElasticMQ(t), "")
	case "ElasticMQ FIFO":
		return newQueue(t, services.ElasticMQ(t), ".fifo")
	case "Kafka":
		return newTopic(t, services.Kafka(t), audit)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return newTopic(t, cluster.ListenAddrs(), audit)
}

const patience = 60 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond) // the poll interval of a condition with a deadline
	}
}

// queue is an SQS queue.
type queue struct {
	client *awssqs.Client
	url    string
	arn    string
	fifo   bool
}

func newQueue(t *testing.T, endpoint, suffix string) *queue {
	t.Helper()
	q := &queue{fifo: suffix != "", client: clientOf(endpoint)}
	attributes := map[string]string{"VisibilityTimeout": "60"}
	if q.fifo {
		attributes["FifoQueue"] = "true"
	}
	name := services.Name(t)
	name = name[:min(len(name), 70)] + suffix
	out, err := q.client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	q.url = *out.QueueUrl
	t.Cleanup(func() {
		_, _ = q.client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: &q.url})
	})
	q.arn = q.attributes(t)["QueueArn"]
	return q
}

func clientOf(endpoint string) *awssqs.Client {
	return awssqs.New(awssqs.Options{
		HTTPClient:   sqstest.HTTPClient(),
		BaseEndpoint: aws.String(endpoint), Region: "elasticmq",
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
}

func (q *queue) attributes(t *testing.T) map[string]string {
	t.Helper()
	all, err := q.client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Attributes
}

func text(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

// send sends a message with nine attributes, one more than a dead letter has room for; with the stamp all ten are taken.
func (q *queue) send(t *testing.T) {
	t.Helper()
	in := &awssqs.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String("order \U0001F600 <1>\n"),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"binary": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 0xFF, 1}},
			"number": {DataType: aws.String("Number"), StringValue: aws.String("12.5")},
		}}
	for _, name := range strings.Fields("c d e f g h zz") {
		in.MessageAttributes[name] = text("value of " + name)
	}
	if q.fifo {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("alice"), aws.String("first")
	}
	if _, err := q.client.SendMessage(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

func (q *queue) worker(t *testing.T, l ledger.Ledger, h consumer.Handler, o consumer.Options) consumer.Worker {
	t.Helper()
	o.Name = "billing"
	w, err := sqs.NewWorker(q.client, q.url, l, h, &sqs.Config{Options: o, WaitTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (q *queue) target(t *testing.T) consumer.DeadLetterer {
	t.Helper()
	d, err := sqs.NewDeadLetterQueue(q.client, q.url)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// receive takes messages out of the queue until there are n, and none comes for a second.
func (q *queue) receive(t *testing.T, n int) (out []types.Message) {
	t.Helper()
	eventually(t, "the dead letters are in the queue", func() bool {
		got, err := q.client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{
			QueueUrl: &q.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, got.Messages...)
		return len(out) >= n && len(got.Messages) == 0
	})
	return out
}

func (q *queue) letters(t *testing.T, n int) (out []*consumer.DeadLetter) {
	t.Helper()
	for _, m := range q.receive(t, n) {
		d, err := sqs.ParseDeadLetter(&m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

func (q *queue) back(t *testing.T, d *consumer.DeadLetter) {
	t.Helper()
	in, err := sqs.SourceInput(d, q.url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.client.SendMessage(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

func (q *queue) acknowledged(t *testing.T) bool {
	a := q.attributes(t)
	return a["ApproximateNumberOfMessages"] == "0" && a["ApproximateNumberOfMessagesNotVisible"] == "0"
}

func (q *queue) key(d *consumer.DeadLetter) ledger.Key {
	return ledger.Key{Scope: "sqs:" + q.arn + "/billing", ID: []byte(d.Message.ID)}
}

// topic is a Kafka topic with three partitions.
type topic struct {
	seeds  []string
	client *kgo.Client
	admin  *kadm.Client
	name   string
	group  string
	audit  kafka.Audit // of its workers
}

func newTopic(t *testing.T, seeds []string, audit kafka.Audit) *topic {
	t.Helper()
	p := &topic{seeds: seeds, name: services.Name(t), group: services.Name(t), audit: audit}
	var err error
	if p.client, err = kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.UnknownTopicRetries(-1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.client.Close)
	p.admin = kadm.NewClient(p.client)
	if _, err := p.admin.CreateTopic(t.Context(), 3, 1, nil, p.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.admin.DeleteTopic(context.Background(), p.name) })
	return p
}

// send produces a tombstone with an empty key and headers that repeat.
func (p *topic) send(t *testing.T) {
	t.Helper()
	err := p.client.ProduceSync(t.Context(), &kgo.Record{Topic: p.name, Key: []byte{}, Timestamp: time.UnixMilli(time.Now().UnixMilli() - 5000),
		Headers: []kgo.RecordHeader{{Key: "z", Value: []byte("1")}, {Key: "a"}, {Key: "z", Value: []byte{0xFF}}, {Key: "", Value: []byte{}}}}).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *topic) worker(t *testing.T, l ledger.Ledger, h consumer.Handler, o consumer.Options) consumer.Worker {
	t.Helper()
	w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(p.seeds...), kgo.ConsumerGroup(p.group), kgo.ConsumeTopics(p.name)}, l, h,
		&kafka.Config{Options: o, Audit: p.audit, CommitInterval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (p *topic) target(t *testing.T) consumer.DeadLetterer {
	t.Helper()
	d, err := kafka.NewDeadLetterTopic(p.client, p.name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// records reads the topic from its start.
func (p *topic) records(t *testing.T) (out []*kgo.Record) {
	t.Helper()
	ends, err := p.admin.ListEndOffsets(t.Context(), p.name)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	ends.Each(func(o kadm.ListedOffset) { want += o.Offset })
	c, err := kgo.NewClient(kgo.SeedBrokers(p.seeds...), kgo.ConsumeTopics(p.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for int64(len(out)) < want {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		out = append(out, fetches.Records()...)
	}
	slices.SortFunc(out, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
	return out
}

func (p *topic) letters(t *testing.T, n int) (out []*consumer.DeadLetter) {
	t.Helper()
	eventually(t, "the dead letters are on the topic", func() bool { return len(p.records(t)) >= n })
	for _, r := range p.records(t) {
		d, err := kafka.ParseDeadLetter(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

func (p *topic) back(t *testing.T, d *consumer.DeadLetter) {
	t.Helper()
	r, err := kafka.SourceRecord(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (p *topic) acknowledged(t *testing.T) bool {
	t.Helper()
	ends, err := p.admin.ListEndOffsets(t.Context(), p.name)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := p.admin.FetchOffsets(t.Context(), p.group)
	if err != nil {
		return false // the group is not there yet
	}
	done := true
	ends.Each(func(o kadm.ListedOffset) {
		at, ok := committed.Lookup(o.Topic, o.Partition)
		done = done && (o.Offset == 0 || ok && at.At == o.Offset)
	})
	return done
}

func (p *topic) key(d *consumer.DeadLetter) ledger.Key {
	cluster, _, _ := strings.Cut(d.Message.Source, "/")
	return ledger.Key{Scope: "kafka:" + cluster + "/" + p.name + "/" + p.group, ID: []byte(d.Message.ID), Pos: d.Stamp.Pos}
}
