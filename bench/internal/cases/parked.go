package cases

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/kafka"
)

const (
	parkedGroup = "kafka, retries parked"
	// commitBehind is for how long committed offsets were behind what was handled of other partitions, at most.
	commitBehind = "committed behind, s"
	putOff       = int32(0) // the partition of which all is put off
)

// parkedRecords are 100,000 of one partition, and seven times as many of the others.
var parkedRecords = suite.Size{Full: 800_000, Quick: 80_000}

// parkedCases put off all records of one partition for an hour, beside those of seven others.
func parkedCases() []suite.Case {
	const note = "PostgreSQL ledger, no order, no-op handler; the records of seven partitions, beside one"
	return []suite.Case{
		{Group: parkedGroup, Name: "none is put off", Note: note, N: parkedRecords, Run: puttingOff(false)},
		{Group: parkedGroup, Name: "all of one partition are", Note: note + " whose records all are put off for an hour, and parked in the ledger", N: parkedRecords,
			Run: puttingOff(true)},
	}
}

// puttingOff measures how fast the records of the other partitions are handled, and how far behind all committed offsets are.
func puttingOff(some bool) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, err := freshRows(ctx, r, 1)
		if err != nil {
			return nil, err
		}
		c, topic, err := newTopic(ctx, r, r.N)
		if err != nil {
			return nil, err
		}
		seen := &passing{others: r.N - r.N/partitions, all: r.N, done: make(chan struct{}), clock: &firstFetch{}}
		group := c.newGroup(r)
		w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.WithHooks(seen.clock)}, l,
			consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
				seen.handled(m.Partition)
				if some && m.Partition == putOff {
					return consumer.RetryAfter(errLater, time.Hour)
				}
				return nil
			}), &kafka.Config{Order: kafka.OrderNone, Options: consumer.Options{ParkedMost: 10_000_000}})
		if err != nil {
			return nil, err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- w.Run(running) }()
		late, err := seen.watch(ctx, func() (int64, error) { return c.sum(ctx, group) }, ended)
		stop()
		if err == nil {
			err = <-ended
		}
		return suite.Result{suite.Rate: float64(seen.others) / seen.took.Seconds(), commitBehind: late.Seconds()}, err
	}
}

var errLater = errors.New("not yet")

// passing counts records as they are handled. It is safe for concurrent use.
type passing struct {
	others, all int
	done        chan struct{} // all others are handled
	clock       *firstFetch

	mu            sync.Mutex
	nOthers, nAll int
	took          time.Duration // of the others
	history       []moment      // how many were handled when
}

type moment struct {
	at time.Time
	n  int
}

func (p *passing) handled(partition int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nAll++
	if partition == putOff {
		return
	}
	if p.nOthers++; p.nOthers == p.others {
		p.took = p.clock.since()
		close(p.done)
	}
}

// watch looks at what is committed until that is all, and says for how long it was behind at most: how long ago as few were handled as
// are committed now.
func (p *passing) watch(ctx context.Context, committed func() (int64, error), ended <-chan error) (late time.Duration, err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case err := <-ended:
			return late, errors.Join(err, errors.New("the worker has ended before all was committed"))
		case <-ctx.Done():
			return late, ctx.Err()
		}
		n, err := committed()
		if err != nil {
			continue // the group is new
		}
		p.mu.Lock()
		p.history = append(p.history, moment{time.Now(), p.nAll})
		for len(p.history) > 1 && p.history[0].n < int(n) {
			p.history = p.history[1:]
		}
		if int(n) < p.all {
			late = max(late, time.Since(p.history[0].at))
		}
		p.mu.Unlock()
		if int(n) == p.all {
			<-p.done
			return late, nil
		}
	}
}
