package cases

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/kafka"
)

const shareGroup = "kafka, share group"

func shareCases() []suite.Case {
	return []suite.Case{
		{Group: shareGroup, Name: "raw poll + accept", Note: "every record accepted; nothing else is done: the ceiling", N: someRecords,
			Run: bareShare(func(context.Context, *suite.Run) (process, error) {
				return func(context.Context, []*kgo.Record) error { return nil }, nil
			})},
		{Group: shareGroup, Name: "bare loop, batched SQL", Note: "a poll is finished before the next one, which would accept it; " + bareNote, N: someRecords,
			Run: bareShare(shareSQL)},
		{Group: shareGroup, Name: "ours, rows", Note: "PostgreSQL ledger, no-op handler, all settings default but 5 attempts", N: someRecords, Run: oursShare},
	}
}

// process is what a bare loop does with a poll.
type process func(context.Context, []*kgo.Record) error

func shareSQL(ctx context.Context, r *suite.Run) (process, error) {
	b, err := newBare(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, records []*kgo.Record) error {
		batch := bareRecords(records)
		if err := b.claim(ctx, batch); err != nil {
			return err
		}
		return b.settle(ctx, batch)
	}, nil
}

// newShareGroup is newGroup for a share group, set up for a worker of ours.
func (c *cluster) newShareGroup(ctx context.Context, r *suite.Run) (string, error) {
	group := c.newGroup(r)
	return group, services.SetShareGroup(ctx, c.client, group, map[string]string{
		"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed", "share.delivery.count.limit": "10",
	})
}

// bareShare polls, processes and accepts, with franz-go's default settings as ours.
func bareShare(prepare func(context.Context, *suite.Run) (process, error)) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		c, topic, err := newTopic(ctx, r, r.N)
		if err != nil {
			return nil, err
		}
		do, err := prepare(ctx, r)
		if err != nil {
			return nil, err
		}
		group, err := c.newShareGroup(ctx, r)
		if err != nil {
			return nil, err
		}
		clock := &firstFetch{}
		client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.ShareGroup(group), kgo.ConsumeTopics(topic), kgo.WithHooks(clock))
		if err != nil {
			return nil, err
		}
		r.Cleanup(func() error { client.Close(); return nil })
		for seen := 0; seen < r.N; {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return nil, err
			}
			records := fetches.Records()
			if err := do(ctx, records); err != nil {
				return nil, err
			}
			client.MarkAcks(kgo.AckAccept, records...)
			seen += len(records)
		}
		if err := client.FlushAcks(ctx); err != nil {
			return nil, err
		}
		took := clock.since()
		return suite.Throughput(r.N, took), c.accepted(ctx, group, topic)
	}
}

func oursShare(ctx context.Context, r *suite.Run) (suite.Result, error) {
	l, err := freshRows(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	c, topic, err := newTopic(ctx, r, r.N)
	if err != nil {
		return nil, err
	}
	group, err := c.newShareGroup(ctx, r)
	if err != nil {
		return nil, err
	}
	clock := &firstFetch{}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var handled atomic.Int64
	handler := consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
		if handled.Add(1) >= int64(r.N) {
			stop()
		}
		return nil
	})
	w, err := kafka.NewShareWorker([]kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.ShareGroup(group), kgo.ConsumeTopics(topic), kgo.WithHooks(clock)},
		l, handler, &kafka.ShareConfig{Options: consumer.Options{Attempts: 5}})
	if err != nil {
		return nil, err
	}
	if err := w.Run(running); err != nil {
		return nil, err
	}
	took := clock.since()
	if got := handled.Load(); got != int64(r.N) {
		return nil, errors.Join(fmt.Errorf("%d of %d records were handled", got, r.N), ctx.Err())
	}
	return suite.Throughput(r.N, took), c.accepted(ctx, group, topic)
}

// accepted waits until a share group has accepted all of a topic: the broker says so a little later.
func (c *cluster) accepted(ctx context.Context, group, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		all, err := c.admin.DescribeShareGroupOffsets(ctx, group)
		if err != nil {
			return err
		}
		offsets, left := all[group].Offsets[topic], int64(0)
		for _, o := range offsets {
			left += o.Lag
		}
		if len(offsets) == partitions && left == 0 {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("share group %s has not accepted %d records", group, left)
		}
	}
}
