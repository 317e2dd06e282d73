package cases

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
)

const (
	sourceGroup = "two queues of one process, 90 messages/s of the first"
	sourceSlots = 16
)

// sourceCases time the messages of a queue, from when they were due until they are handled, beside another queue of the same process which
// has more than the handlers can do.
func sourceCases() []suite.Case {
	n := suite.Size{Full: 1800, Quick: 450, Smoke: 27}
	const note = "sqstest 0 ms, in the same process, memory ledger; 16 handlers of 20 ms for both queues"
	alike := func() (first, second *consumer.Limiter) {
		l := consumer.NewLimiter(sourceSlots)
		return l, l
	}
	levels := func() (first, second *consumer.Limiter) {
		s := consumer.NewSlots(sourceSlots)
		return s.Limiter(consumer.Share{}), s.Limiter(consumer.Share{Level: 1})
	}
	return []suite.Case{
		{Group: sourceGroup, Name: "alone", Main: suite.P99, N: n, Note: note, Run: sources(0, levels)},
		{Group: sourceGroup, Name: "beside 1,000/s of a lower level", Main: suite.P99, N: n, Note: note + "; consumer.Slots", Run: sources(noisyOf, levels)},
		{Group: sourceGroup, Name: "beside 1,000/s, one limiter", Main: suite.P99, N: n, Note: note + "; consumer.NewLimiter", Run: sources(noisyOf, alike)},
	}
}

func sources(load int, limiters func() (first, second *consumer.Limiter)) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		client, _, err := stub(0)(ctx, r)
		if err != nil {
			return nil, err
		}
		times := &arrivals{n: r.N, all: make(chan struct{})}
		first := consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			_, due, err := sentOf(m)
			if err != nil {
				return consumer.Terminal(err)
			}
			time.Sleep(tenantWork)
			times.came(due)
			return nil
		})
		second := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { time.Sleep(tenantWork); return nil })
		ledger := memory.New()
		one, two := limiters()
		var workers []consumer.Worker
		var urls []string
		for _, w := range []struct {
			limiter *consumer.Limiter
			handler consumer.Handler
		}{{one, first}, {two, second}} {
			url, err := emptyQueue(ctx, r, client)
			if err != nil {
				return nil, err
			}
			worker, err := sqs.NewWorker(client, url, ledger, w.handler, &sqs.Config{Options: consumer.Options{
				Name: "bench", Concurrency: 2 * sourceSlots, Limiter: w.limiter, Drain: time.Second}})
			if err != nil {
				return nil, err
			}
			workers, urls = append(workers, worker), append(urls, url)
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- consumer.Run(running, workers...) }()
		g, sending := errgroup.WithContext(ctx)
		g.Go(func() error { return sendTenants(sending, client, urls[0], r.N/quiet, 0) })
		if load > 0 {
			g.Go(func() error { return sendLoad(sending, client, urls[1], r.N/quiet, load) })
		}
		err = g.Wait()
		select {
		case <-times.all:
		case e := <-ended:
			err = errors.Join(err, e, errors.New("the workers have ended before they had all"))
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		}
		stop()
		return times.result(), err
	}
}
