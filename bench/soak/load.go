package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// What the load keeps before the workers: more than they hold, so that they never wait for it, and not so much that a
// broker forgets it.
const (
	topicBacklog = 50_000
	queueBacklog = 2000
	bodySize     = 200
)

// load sends as fast as the workers handle.
type load struct {
	site          *site
	records, sent atomic.Int64
}

// backlog is how far the slower of the two groups is behind.
func (l *load) backlog() int64 {
	h := l.site.now().Handled
	return l.records.Load() - min(h.Rows, h.Ranges)
}

func (l *load) queued() int64 { return l.sent.Load() - l.site.now().Handled.Queue }

// run sends until ctx ends.
func (l *load) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.fill(ctx, l.backlog, topicBacklog, l.produce) })
	for range 4 {
		g.Go(func() error { return l.fill(ctx, l.queued, queueBacklog, l.send) })
	}
	return g.Wait()
}

// fill sends while there is room.
func (l *load) fill(ctx context.Context, now func() int64, most int64, send func(context.Context) error) error {
	for ctx.Err() == nil {
		if now() < most {
			if err := send(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			continue
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// body is that of the n-th message.
func body(n int64) string {
	text := fmt.Sprintf(`{"order":%d,"x":"`, n)
	return text + strings.Repeat("x", bodySize-2-len(text)) + `"}`
}

func (l *load) produce(ctx context.Context) error {
	const many = 1000
	records := make([]*kgo.Record, many)
	from := l.records.Load() // one goroutine produces
	for i := range records {
		n := from + int64(i)
		records[i] = &kgo.Record{Key: strconv.AppendInt(nil, n%10_000, 10), Value: []byte(body(n))}
	}
	err := l.site.kafka.ProduceSync(ctx, records...).FirstErr()
	l.records.Add(many)
	return err
}

func (l *load) send(ctx context.Context) error {
	in := &awssqs.SendMessageBatchInput{QueueUrl: &l.site.orders.Queue}
	to := l.sent.Add(10)
	for i := range int64(10) {
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.FormatInt(i, 10)), MessageBody: aws.String(body(to - i))})
	}
	out, err := l.site.queues.SendMessageBatch(ctx, in)
	if err == nil && len(out.Failed) > 0 {
		err = fmt.Errorf("send: %s", aws.ToString(out.Failed[0].Message))
	}
	return err
}
