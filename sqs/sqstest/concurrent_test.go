package sqstest_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/sqs/sqstest"
)

// Consumers and producers at once: each message is received exactly once while
// no visibility ends, and FIFO groups keep their order.
func TestConcurrentUse(t *testing.T) {
	const producers, each, consumers = 4, 100, 6
	for _, name := range []string{"q", "q.fifo"} {
		t.Run(name, func(t *testing.T) {
			b := setUp(t, sqstest.Options{})
			url := b.queue(name, "VisibilityTimeout", "600")
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var mu sync.Mutex
			seen := map[string][]int{} // by producer, in the order received
			total := 0
			var all sync.WaitGroup
			for p := range producers {
				all.Go(func() {
					for i := range each {
						in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(strconv.Itoa(i)), MessageGroupId: aws.String(strconv.Itoa(p))}
						if name == "q.fifo" {
							in.MessageDeduplicationId = aws.String(strconv.Itoa(p) + "-" + strconv.Itoa(i))
						}
						if _, err := b.client.SendMessage(ctx, in); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for range consumers {
				all.Go(func() {
					for ctx.Err() == nil {
						out, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
							QueueUrl: &url, MaxNumberOfMessages: 10,
							MessageSystemAttributeNames: []types.MessageSystemAttributeName{"MessageGroupId"},
						})
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for _, m := range out.Messages {
							i, _ := strconv.Atoi(*m.Body)
							seen[m.Attributes["MessageGroupId"]] = append(seen[m.Attributes["MessageGroupId"]], i)
							total++
						}
						over := total >= producers*each
						mu.Unlock()
						for _, m := range out.Messages {
							if err := b.delete(url, m); err != nil {
								t.Error(err)
							}
						}
						if over {
							return
						}
					}
				})
			}
			all.Wait()
			b.same("counts", b.srv.Counts(name), sqstest.QueueState{})
			for producer, got := range seen {
				if len(got) != each {
					t.Errorf("producer %s: %d messages received, want %d", producer, len(got), each)
				}
				for i, n := range got {
					if name == "q.fifo" && i != n {
						t.Fatalf("group %s: message %d received in place %d", producer, n, i)
					}
				}
			}
		})
	}
}

// A big backlog costs a receive nothing: what is measured is entries sent,
// received and deleted in batches of ten, per second, over HTTP and the SDK.
func BenchmarkSendReceiveDelete(b *testing.B) {
	srv := sqstest.Start(b, nil)
	client := srv.Client()
	url, err := srv.CreateQueue("q", map[string]string{"VisibilityTimeout": "43200"})
	if err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var send []types.SendMessageBatchRequestEntry
			for i := range 10 {
				send = append(send, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String("0123456789")})
			}
			if _, err := client.SendMessageBatch(b.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: send}); err != nil {
				b.Error(err)
				return
			}
			out, err := client.ReceiveMessage(b.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10})
			if err != nil {
				b.Error(err)
				return
			}
			var done []types.DeleteMessageBatchRequestEntry
			for i, m := range out.Messages {
				done = append(done, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
			}
			if len(done) == 0 {
				continue
			}
			if _, err := client.DeleteMessageBatch(b.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: done}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(10*b.N)/b.Elapsed().Seconds(), "messages/s")
}
