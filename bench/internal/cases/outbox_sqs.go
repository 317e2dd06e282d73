package cases

import (
	"context"
	"fmt"
	"strconv"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/sqs"
)

// relayingToQueue measures what a relay sends to a queue.
func relayingToQueue(ctx context.Context, r *suite.Run) (suite.Result, error) {
	client, url, err := stubQueue(ctx, r)
	if err != nil {
		return nil, err
	}
	rows, err := freshRows(ctx, r, outboxWriters)
	if err != nil {
		return nil, err
	}
	target, err := sqs.NewPublisher(client, url)
	if err != nil {
		return nil, err
	}
	if err := publish(ctx, rows, r.N); err != nil {
		return nil, err
	}
	return relayed(ctx, r, rows, target, func() error { return allSent(ctx, client, url, r.N) })
}

// allSent waits until a queue has n messages.
func allSent(ctx context.Context, client *awssqs.Client, url string, n int) error {
	const count = types.QueueAttributeNameApproximateNumberOfMessages
	for {
		out, err := client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{count}})
		if err != nil {
			return err
		}
		switch got, err := strconv.Atoi(out.Attributes[string(count)]); {
		case err != nil || got > n:
			return fmt.Errorf("the queue has %q messages, want %d: %w", out.Attributes[string(count)], n, err)
		case got == n:
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bareSends is how fast a queue can be filled from here.
func bareSends(ctx context.Context, r *suite.Run) (suite.Result, error) {
	client, _, err := stub(0)(ctx, r)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := newQueue(ctx, r, client); err != nil {
		return nil, err
	}
	return suite.Result{suite.Rate: float64(r.N) / time.Since(began).Seconds()}, nil
}
