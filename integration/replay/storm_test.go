package replay_test

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

// TestQueueStorm replays a dead-letter queue to its source under fire.
func TestQueueStorm(t *testing.T) {
	t.Parallel()
	f, d, endpoint, name := storms(), newDatabase(t), services.ElasticMQ(t), services.Name(t)
	client := sqsClient(endpoint)
	dead := queue(t, client, name+"_dead", nil)
	arn := attribute(t, client, dead, types.QueueAttributeNameQueueArn)
	source := queue(t, client, name, map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"100"}`, arn)})
	var buggy atomic.Bool
	buggy.Store(true)
	runQueue(t, d, client, source, dead, handler(buggy.Load))
	send(t, client, source, f.letters)
	eventually(t, func() string { return d.failed(f.letters) })
	eventually(t, func() string { return holds(t, client, source, 0) })
	buggy.Store(false)

	o := orders{Database: d.url, Endpoint: endpoint, Queue: source, Dead: dead, Consumer: "shop", Rate: f.speed}
	storm(t, f.kills, func(int) orders { return o })
	o.Rate = 0
	// What a killed one had received is hidden for a while. What the dead-letter queue did not take in time, as on a machine
	// that is starved, is in the archive alone.
	eventually(t, func() string {
		if wrong := start(t, o).outcome(); wrong != "" {
			return wrong
		}
		o.Archive = !o.Archive
		return cmp.Or(holds(t, client, dead, 0), holds(t, client, source, 0), d.effects(f.letters))
	})
	d.expect(f.letters)
}

func queue(t *testing.T, client *awssqs.Client, name string, attributes map[string]string) string {
	t.Helper()
	out, err := client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: out.QueueUrl})
	})
	return *out.QueueUrl
}

func attribute(t *testing.T, client *awssqs.Client, url string, name types.QueueAttributeName) string {
	t.Helper()
	out, err := client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Attributes[string(name)]
}

// holds says that a queue does not have so many messages.
func holds(t *testing.T, client *awssqs.Client, url string, want int) string {
	t.Helper()
	if visible, hidden := depth(t, client, url); visible+hidden != want {
		return fmt.Sprintf("%s holds %d messages and %d in flight, not %d", url, visible, hidden, want)
	}
	return ""
}

// holdsAll says that a queue has fewer messages. A dead letter is there twice if the answer to its first send was late.
func holdsAll(t *testing.T, client *awssqs.Client, url string, want int) string {
	t.Helper()
	if visible, hidden := depth(t, client, url); visible+hidden < want {
		return fmt.Sprintf("%s holds %d messages and %d in flight, less than %d", url, visible, hidden, want)
	}
	return ""
}

func depth(t *testing.T, client *awssqs.Client, url string) (visible, hidden int) {
	t.Helper()
	visible, _ = strconv.Atoi(attribute(t, client, url, types.QueueAttributeNameApproximateNumberOfMessages))
	hidden, _ = strconv.Atoi(attribute(t, client, url, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible))
	return visible, hidden
}

func send(t *testing.T, client *awssqs.Client, url string, n int) {
	t.Helper()
	for i := 0; i < n; i += 10 {
		in := &awssqs.SendMessageBatchInput{QueueUrl: &url}
		for j := i; j < min(n, i+10); j++ {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(j)), MessageBody: aws.String(fmt.Sprintf("message %04d", j)),
			})
		}
		if out, err := client.SendMessageBatch(t.Context(), in); err != nil || len(out.Failed) > 0 {
			t.Fatalf("send: %v, %+v", err, out)
		}
	}
}

// TestTopicStorm replays a dead-letter topic under fire, to its source and in place, side by side: half a storm for a worker
// that holds records in ranges, and half for one with rows.
func TestTopicStorm(t *testing.T) {
	t.Parallel()
	f := storms()
	f.letters, f.kills = f.letters/2, f.kills/2
	for name, audit := range map[string]kafka.Audit{"ranges": kafka.AuditRanges, "rows": kafka.AuditRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topicStorm(t, f, audit)
		})
	}
}

func topicStorm(t *testing.T, f fury, audit kafka.Audit) {
	d, brokers, topic, group := newDatabase(t), services.Kafka(t), services.Name(t), services.Name(t)
	dead := topic + "_dead"
	o := orders{Database: d.url, Brokers: brokers, Topic: topic, DeadTopic: dead, Consumer: group, Rate: f.speed}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopics(t.Context(), 4, 1, nil, topic, dead); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.DeleteTopics(context.Background(), topic, dead) })
	var buggy atomic.Bool
	buggy.Store(true)
	run(t, topicWorker(t, d, client, o, audit, buggy.Load))
	produce(t, client, topic, f.letters)
	eventually(t, func() string { return ended(t, admin, dead, f.letters) })
	eventually(t, func() string { return d.failed(f.letters) })
	buggy.Store(false)

	storm(t, f.kills, func(i int) orders {
		o := o
		o.InPlace, o.Archive = i%2 == 0, i%4 == 0
		return o
	})
	o.Rate = 0
	for n := 0; ; n++ {
		o.InPlace = n%2 == 0
		report := start(t, o).end()
		if report.Left == 0 && report.Replayed == 0 {
			break
		}
		if n == 30 {
			t.Fatalf("there is always something left:\n%s", report.Text())
		}
		time.Sleep(lease / 2) // what a killed one had claimed is free after its lease
	}
	eventually(t, func() string { return d.effects(f.letters) })
	d.expect(f.letters)
}

// topicWorker is a worker of the topic that the orders name. It forwards what fails to the dead-letter topic.
func topicWorker(t *testing.T, d *database, client *kgo.Client, o orders, audit kafka.Audit, buggy func() bool) consumer.Worker {
	t.Helper()
	target, err := kafka.NewDeadLetterTopic(client, o.DeadTopic)
	if err != nil {
		t.Fatal(err)
	}
	options := options("")
	options.DeadLetter, options.DeadLetterTries = target, 100 // on a starved machine, too: the storm begins with all letters there
	options.Lease = 10 * lease                                // it is not what is killed
	options.Logger = zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(o.Brokers...), kgo.ConsumerGroup(o.Consumer), kgo.ConsumeTopics(o.Topic)}, d.ledger,
		handler(buggy), &kafka.Config{Options: options, Audit: audit, CommitInterval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func produce(t *testing.T, client *kgo.Client, topic string, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range n {
		records[i] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key %d", i%50), Value: fmt.Appendf(nil, "message %04d", i)}
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// ended says that a topic does not have at least so many offsets.
func ended(t *testing.T, admin *kadm.Client, topic string, want int) string {
	t.Helper()
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	if n >= want {
		return ""
	}
	return fmt.Sprintf("%s has %d records, not %d", topic, n, want)
}

// failed says that not so many messages failed.
func (d *database) failed(want int) string {
	d.t.Helper()
	n := 0
	for _, err := range d.ledger.Messages(d.t.Context(), ledger.Filter{State: ledger.Failed}) {
		if err != nil {
			d.t.Fatal(err)
		}
		n++
	}
	if n == want {
		return ""
	}
	return fmt.Sprintf("%d messages failed, not %d", n, want)
}
