package storm_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// mailbox is a queue under test.
type mailbox struct {
	t      *testing.T
	client *awssqs.Client
	url    string
	fifo   bool
}

func newMailbox(t *testing.T, endpoint string, fifo bool) *mailbox {
	t.Helper()
	q := &mailbox{t: t, client: sqsClient(endpoint), fifo: fifo}
	name, attributes := services.Name(t), map[string]string{"VisibilityTimeout": strconv.Itoa(int(visibility.Seconds()))}
	if fifo {
		name += ".fifo"
		attributes["FifoQueue"] = "true"
	}
	out, err := q.client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	q.url = *out.QueueUrl
	t.Cleanup(func() {
		_, _ = q.client.DeleteQueue(context.Background(), &awssqs.DeleteQueueInput{QueueUrl: &q.url})
	})
	return q
}

const groups = 50

// send sends the messages from to to-1 in batches of ten; a FIFO queue gets them in groups, each in order.
func (q *mailbox) send(from, to int) {
	q.t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	const senders = 10 // each sends whole groups, so that a group's order is the order of one sender
	for s := range senders {
		wg.Go(func() {
			var batch []types.SendMessageBatchRequestEntry
			flush := func() {
				if len(batch) == 0 {
					return
				}
				out, err := q.client.SendMessageBatch(q.t.Context(), &awssqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: batch})
				if err != nil {
					q.t.Errorf("send: %v", err)
				} else if len(out.Failed) > 0 {
					q.t.Errorf("send: %s", aws.ToString(out.Failed[0].Message))
				}
				batch = nil
			}
			for i := from; i < to; i++ {
				if i%groups%senders != s {
					continue
				}
				e := types.SendMessageBatchRequestEntry{
					Id: aws.String(strconv.Itoa(len(batch))), MessageBody: aws.String(fmt.Sprintf("message %07d", i)),
				}
				if q.fifo {
					e.MessageGroupId = aws.String(fmt.Sprintf("group-%d", i%groups))
					e.MessageDeduplicationId = aws.String(strconv.Itoa(i))
				}
				if batch = append(batch, e); len(batch) == 10 {
					flush()
				}
			}
			flush()
		})
	}
}

// left says what the queue still holds; empty when it is empty.
func (q *mailbox) left() string {
	out, err := q.client.GetQueueAttributes(q.t.Context(), &awssqs.GetQueueAttributesInput{
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

func TestSQSStorm(t *testing.T) {
	t.Parallel()
	standard, fifo := 2500, 1000
	if long() {
		standard, fifo = 5000, 2000
	}
	for _, server := range []struct {
		name     string
		endpoint func(t *testing.T) string
	}{
		{"ElasticMQ", func(t *testing.T) string { return services.ElasticMQ(t) }},
		{"sqstest", func(t *testing.T) string { return sqstest.Start(t, nil).URL }},
	} {
		t.Run(server.name+"/standard", func(t *testing.T) {
			t.Parallel()
			stormQueue(t, server.endpoint(t), false, standard)
		})
		t.Run(server.name+"/fifo", func(t *testing.T) {
			t.Parallel()
			stormQueue(t, server.endpoint(t), true, fifo)
		})
	}
}

// stormQueue sends n messages to two processes that are killed and replaced, and stops the database in the middle. The
// last third is sent while the database is away, so that work waits for it, however quick the processes were.
func stormQueue(t *testing.T, endpoint string, fifo bool, n int) {
	const every = 2 * time.Second // a storm is over in some seconds
	d := newDatabase(t)
	q := newMailbox(t, endpoint, fifo)
	c := newCrew(t, orders{
		Database: d.server.URL(), Queue: q.url, Endpoint: endpoint, Group: "storm", Work: 20 * time.Millisecond,
	})
	for range 2 {
		c.start()
	}
	first := n * 2 / 3
	q.send(0, first)
	if t.Failed() {
		t.FailNow()
	}
	c.storm(d, first, n/3, every)
	from, to := d.outage(t, 20*time.Second, func() { q.send(first, n) })
	expectSilence(t, c, from, to)
	c.storm(d, n, n*9/10, every)
	eventually(t, 10*time.Minute, func() string { return progress(d, n, n) })
	eventually(t, 5*time.Minute, q.left)
	for _, m := range c.all() {
		c.dismiss(m)
	}
	expectEffects(t, d, n, n)
	if fifo {
		broken := d.count(t, `SELECT count(*) FROM (SELECT body, lag(body) OVER (PARTITION BY grp ORDER BY seq) AS before
			FROM effect) e WHERE before >= body`)
		if broken > 0 {
			t.Errorf("%d messages were done before an earlier one of their group", broken)
		}
	}
	c.expectTrouble(t, 2, n*9/10)
	t.Logf("%d messages, %d processes, %d killed, %d left", n, c.started, c.killed, c.left)
}
