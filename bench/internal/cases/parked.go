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
	parkedGroup     = "kafka, retries parked"
	parkedSlowGroup = "kafka, retries parked, handlers of 5 ms"
	parkedKeysGroup = "kafka, keys parked"
	keysPutOff      = 30 * time.Second // longer than it takes to park what is behind
	// commitBehind is for how long committed offsets were behind what was handled of other partitions, at most.
	commitBehind = "committed behind, s"
	putOff       = int32(0) // the partition of which all is put off
)

// parkedRecords are 100,000 of one partition, and seven times as many of the others; parkedSlowRecords are fewer.
var (
	parkedRecords     = suite.Size{Full: 800_000, Quick: 80_000}
	parkedSlowRecords = suite.Size{Full: 160_000, Quick: 40_000}
	parkedKeyRecords  = suite.Size{Full: 160_000, Quick: 40_000}
)

// parkedCases put off all records of one partition for an hour, beside those of seven others: with handlers that do nothing, so that this
// machine and its database are busy with whatever a record costs, and with handlers that wait for something else.
func parkedCases() (all []suite.Case) {
	for _, c := range []struct {
		group, note string
		n           suite.Size
		takes       time.Duration
	}{
		{parkedGroup, "no-op handler", parkedRecords, 0},
		{parkedSlowGroup, "200 handlers of 5 ms", parkedSlowRecords, 5 * time.Millisecond},
	} {
		note := "PostgreSQL ledger, no order, " + c.note + "; the records of seven partitions, beside one"
		all = append(all, suite.Case{Group: c.group, Name: "none is put off", Note: note, N: c.n, Run: puttingOff(false, c.takes)},
			suite.Case{Group: c.group, Name: "all of one partition are", Note: note + " whose records all are put off for an hour, and parked in the ledger", N: c.n,
				Run: puttingOff(true, c.takes)})
	}
	return append(all, suite.Case{Group: parkedKeysGroup, Name: "the keys of one partition", N: parkedKeyRecords, Run: keysComeBack,
		Note: "PostgreSQL ledger, order by key, no-op handler; the first record of each of 1,250 keys is put off, and what is behind it is parked: " +
			"from the first that comes back to the last"})
}

// keysComeBack measures how fast the keys of a partition come back from the ledger, each in its order.
func keysComeBack(ctx context.Context, r *suite.Run) (suite.Result, error) {
	l, err := freshRows(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	c, topic, err := newTopic(ctx, r, r.N)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var began, ended time.Time
	seen, behind := map[string]int{}, 0
	of, done := (r.N+partitions-1)/partitions, make(chan struct{})
	w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.ConsumerGroup(c.newGroup(r)), kgo.ConsumeTopics(topic)}, l,
		consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			if m.Partition != putOff {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			seen[string(m.Key)]++
			if seen[string(m.Key)] == 1 {
				return consumer.RetryAfter(errLater, keysPutOff)
			}
			if began.IsZero() {
				began = time.Now()
			}
			if behind++; behind == of {
				ended = time.Now()
				close(done)
			}
			return nil
		}), &kafka.Config{Order: kafka.OrderKey, Options: consumer.Options{ParkedMost: 10_000_000}})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	go func() { over <- w.Run(running) }()
	select {
	case <-done:
		stop()
		err = <-over
	case err = <-over:
		err = errors.Join(err, errors.New("the worker has ended before all came back"))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return suite.Result{suite.Rate: float64(of) / ended.Sub(began).Seconds()}, err
}

// puttingOff measures how fast the records of the other partitions are handled, and how far behind all committed offsets are.
func puttingOff(some bool, takes time.Duration) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, err := freshRows(ctx, r, 1)
		if err != nil {
			return nil, err
		}
		c, topic, err := newTopic(ctx, r, r.N)
		if err != nil {
			return nil, err
		}
		seen := &passing{others: r.N - (r.N+partitions-1)/partitions, all: r.N, done: make(chan struct{}), clock: &firstFetch{}}
		group, options := c.newGroup(r), consumer.Options{ParkedMost: 10_000_000}
		if takes > 0 {
			options.Concurrency = 200
		}
		w, err := kafka.NewWorker([]kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.WithHooks(seen.clock)}, l,
			consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
				time.Sleep(takes)
				seen.handled(m.Partition)
				if some && m.Partition == putOff {
					return consumer.RetryAfter(errLater, time.Hour)
				}
				return nil
			}), &kafka.Config{Order: kafka.OrderNone, Options: options})
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
