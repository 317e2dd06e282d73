package cases

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// newConsumer is the plain client of the bare rows, with franz-go's default settings as ours.
func (c *cluster) newConsumer(r *suite.Run, topic, group string, clock *firstFetch) (*kgo.Client, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.WithHooks(clock))
	if err != nil {
		return nil, err
	}
	r.Cleanup(func() error { client.Close(); return nil })
	return client, nil
}

// rawPoll reads and commits, and does nothing else: the ceiling.
func rawPoll(ctx context.Context, r *suite.Run) (suite.Result, error) {
	c, topic, err := newTopic(ctx, r, r.N)
	if err != nil {
		return nil, err
	}
	group, clock := c.newGroup(r), &firstFetch{}
	client, err := c.newConsumer(r, topic, group, clock)
	if err != nil {
		return nil, err
	}
	for seen := 0; seen < r.N; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(*kgo.Record) { seen++ })
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return nil, err
		}
	}
	took := clock.since()
	return suite.Throughput(r.N, took), c.committed(ctx, group, r.N)
}

// bareLoop polls up to 2,000 records at a time, processes 4 such batches at once, and commits in the order of the polls,
// once a second, as ours does by default.
func bareLoop(ctx context.Context, r *suite.Run, process func(context.Context, []*kgo.Record) error) (suite.Result, error) {
	c, topic, err := newTopic(ctx, r, r.N)
	if err != nil {
		return nil, err
	}
	return c.bareLoop(ctx, r, topic, process)
}

// bareLoop is the same of a topic that has so many records, or gets them meanwhile.
func (c *cluster) bareLoop(ctx context.Context, r *suite.Run, topic string, process func(context.Context, []*kgo.Record) error) (suite.Result, error) {
	const atOnce, size = 4, 2000
	group, clock := c.newGroup(r), &firstFetch{}
	client, err := c.newConsumer(r, topic, group, clock)
	if err != nil {
		return nil, err
	}
	type batch struct {
		records []*kgo.Record
		done    chan error
	}
	ordered := make(chan batch, atOnce-1) // the one being waited for is the other
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(ordered)
		for seen := 0; seen < r.N; {
			fetches := client.PollRecords(ctx, size)
			if err := fetches.Err(); err != nil {
				return err
			}
			b := batch{fetches.Records(), make(chan error, 1)}
			seen += len(b.records)
			select {
			case ordered <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
			go func() { b.done <- process(ctx, b.records) }()
		}
		return nil
	})
	g.Go(func() error {
		finished, last := map[int32]*kgo.Record{}, time.Now() // the last finished record of each partition
		commit := func() error {
			last = time.Now()
			return client.CommitRecords(ctx, slices.Collect(maps.Values(finished))...)
		}
		for b := range ordered {
			if err := <-b.done; err != nil {
				return err
			}
			for _, rec := range b.records {
				finished[rec.Partition] = rec
			}
			if time.Since(last) > time.Second {
				if err := commit(); err != nil {
					return err
				}
			}
		}
		return commit()
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	took := clock.since()
	return suite.Throughput(r.N, took), c.committed(context.WithoutCancel(ctx), group, r.N)
}

// bareRecords are the rows of a batch of records, with what has to be computed for them.
func bareRecords(records []*kgo.Record) (b bareBatch) {
	for _, rec := range records {
		sum := sha256.Sum256(rec.Value)
		b.add(rec.Partition, rec.Offset, [16]byte(sum[:]))
	}
	return b
}

func bareBatched(ctx context.Context, r *suite.Run) (suite.Result, error) {
	b, err := newBare(ctx, r, 4)
	if err != nil {
		return nil, err
	}
	return bareLoop(ctx, r, func(ctx context.Context, records []*kgo.Record) error {
		batch := bareRecords(records)
		if err := b.claim(ctx, batch); err != nil {
			return err
		}
		return b.settle(ctx, batch)
	})
}

func barePerMessage(ctx context.Context, r *suite.Run) (suite.Result, error) {
	const each = 8 // of 4 batches at once: 32 connections
	b, err := newBare(ctx, r, 4*each)
	if err != nil {
		return nil, err
	}
	return bareLoop(ctx, r, func(ctx context.Context, records []*kgo.Record) error {
		batch := bareRecords(records)
		g, ctx := errgroup.WithContext(ctx)
		for w := range each {
			g.Go(func() error {
				for i := w; i < len(records); i += each {
					if err := b.claimOne(ctx, batch, i); err != nil {
						return fmt.Errorf("offset %d: %w", records[i].Offset, err)
					}
					if err := b.settleOne(ctx, batch, i); err != nil {
						return fmt.Errorf("offset %d: %w", records[i].Offset, err)
					}
				}
				return nil
			})
		}
		return g.Wait()
	})
}
