package cases

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
)

const (
	adaptiveGroup = "adaptive concurrency"
	kneeTakes     = 10 * time.Millisecond // a call alone
	kneeAt        = 22                    // calls at once with which the service does most: √(1/kneeCost)
	kneeCost      = 0.002                 // of each pair of calls
	adaptiveMost  = 100
)

// adaptiveCases have handlers call a service that does most with 22 calls at once, and less with more of them (Gunther's universal
// scalability law): with fixed numbers of handlers, and with as many as pay.
func adaptiveCases() []suite.Case {
	n := suite.Size{Full: 40_000, Quick: 8000, Smoke: 60}
	var out []suite.Case
	for _, fixed := range []int{4, consumer.DefaultConcurrency, kneeAt, adaptiveMost} {
		out = append(out, suite.Case{Group: adaptiveGroup, Name: fmt.Sprintf("%d handlers", fixed), N: n, Run: kneeRun(consumer.Options{Concurrency: fixed}),
			Note: "the same service, with a fixed number of handlers"})
	}
	return append(out, suite.Case{Group: adaptiveGroup, Name: "1 to 100, MinConcurrency", N: n, Run: kneeRun(consumer.Options{MinConcurrency: 1, Concurrency: adaptiveMost}),
		Note: "sqstest 0 ms, in the same process, memory ledger; a service whose call takes 10 ms alone, and (1 + n(n-1)/500) times that among n; begins with 1"})
}

// kneeRun empties a queue into the service.
func kneeRun(o consumer.Options) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		client, _, err := stub(0)(ctx, r)
		if err != nil {
			return nil, err
		}
		url, err := newQueue(ctx, r, client)
		if err != nil {
			return nil, err
		}
		var busy atomic.Int64
		handler := consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
			n := float64(busy.Add(1))
			time.Sleep(time.Duration(float64(kneeTakes) * (1 + kneeCost*n*(n-1))))
			busy.Add(-1)
			return nil
		})
		m := newMeter(client, r.N)
		o.Name, o.Drain = "bench", time.Second
		w, err := sqs.NewWorker(m, url, memory.New(), handler, &sqs.Config{Options: o})
		if err != nil {
			return nil, err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- w.Run(running) }()
		select {
		case <-m.done:
		case err = <-ended:
			return nil, errors.Join(err, errors.New("the worker has ended before it had all"))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		stop()
		return suite.Throughput(r.N, m.took), <-ended
	}
}
