package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// Names of the values of steps.
const (
	stepRate    = "steps/s"
	writesEach  = "writes/step" // rows that were inserted, updated and deleted
	commitsEach = "commits/step"
	walEach     = "WAL B/step"
)

const (
	stepGroup = "steps, 64 clients"
	stepsEach = 10
)

func stepCases() []suite.Case {
	n := suite.Size{Full: 4000, Quick: 600, Smoke: 64}
	const counts = "requests of 10 steps that do nothing, each recorded before the next one begins; writes, commits and WAL are what they take more than the same requests without steps"
	return []suite.Case{
		{Group: stepGroup, Name: "by hand", Main: stepRate, N: n, Note: counts + ". A step is one INSERT and commit; the request as in the group of requests", Run: stepping(openByHand)},
		{Group: stepGroup, Name: "ours", Main: stepRate, N: n, Note: "consumer.Step in package idempotency on the PostgreSQL ledger, default settings; a row lock of the request, as each step takes it, is in its WAL", Run: stepping(openRunner)},
	}
}

// stepping measures requests with steps, and counts what the steps alone have written.
func stepping(open opens) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		_, without, err := stepped(ctx, r, open, 0)
		if err != nil {
			return nil, err
		}
		took, with, err := stepped(ctx, r, open, stepsEach)
		if err != nil {
			return nil, err
		}
		n, w := float64(r.N*stepsEach), with.less(without)
		return suite.Result{stepRate: n / took.Seconds(), writesEach: w.rows / n, commitsEach: w.commits / n, walEach: w.wal / n}, nil
	}
}

// stepped does requests of so many steps in a shop of their own.
func stepped(ctx context.Context, r *suite.Run, open opens, steps int) (took time.Duration, w written, err error) {
	d, err := postgresServer(ctx, r)
	if err != nil {
		return 0, w, err
	}
	before, err := d.written(ctx, "")
	if err != nil {
		return 0, w, err
	}
	s, err := open(ctx, r)
	if err != nil {
		return 0, w, err
	}
	took, err = byClients(ctx, r.N, func(ctx context.Context, i int) error {
		key := requestKey(i)
		_, err := s.once(ctx, key, func(ctx context.Context) error {
			for n := range steps {
				if err := s.step(ctx, key, fmt.Sprint("call-", n)); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
	if err != nil {
		return 0, w, err
	}
	if err := errors.Join(s.end(), d.gone(ctx, s.schema)); err != nil {
		return 0, w, err
	}
	w, err = d.written(ctx, s.schema)
	return took, w.less(before), err
}
