package cases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/ledger"
)

const (
	perSecond = 1000 // of group latency
	ms        = float64(time.Millisecond)
)

func latencyCases() []suite.Case {
	const group = "latency at 1,000 messages/s"
	n := suite.Size{Full: 20_000, Quick: 2000, Smoke: 100}
	return []suite.Case{
		{Group: group, Name: "two bare commits", Main: suite.P50, N: n, Note: "INSERT, then UPDATE, one commit each, 32 connections; timed from when the message was due",
			Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
				b, err := newBare(ctx, r, 32)
				if err != nil {
					return nil, err
				}
				batch := newBareBatch(0, 0, r.N)
				return atRate(ctx, r.N, perSecond, func(i int) error { return errors.Join(b.claimOne(ctx, batch, i), b.settleOne(ctx, batch, i)) })
			}},
		{Group: group, Name: "ours, claim and settle", Main: suite.P50, N: n, Note: "the same through the ledger's own group commit",
			Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
				l, err := freshRows(ctx, r, 1)
				if err != nil {
					return nil, err
				}
				entries := newEntries(0, 0, r.N)
				return joined(ctx, l, func(o ledger.Owner) (suite.Result, error) {
					return atRate(ctx, r.N, perSecond, func(i int) error { return claimAndSettle(ctx, o, entries[i:i+1]) })
				})
			}},
		{Group: group, Name: "ours, in ranges", Main: suite.P50, N: n, Note: "the same for records of 8 partitions that are held in ranges",
			Run: func(ctx context.Context, r *suite.Run) (suite.Result, error) {
				l, err := freshRows(ctx, r, 1)
				if err != nil {
					return nil, err
				}
				entries := rangedEntries(r.N)
				return joined(ctx, l, func(o ledger.Owner) (suite.Result, error) {
					return atRate(ctx, r.N, perSecond, func(i int) error { return claimAndSettle(ctx, o, entries[i:i+1]) })
				})
			}},
	}
}

// rangedEntries are records of 8 partitions in turn, as they come from a topic, that may lie in ranges.
func rangedEntries(n int) []ledger.Entry {
	const partitions = 8
	out := make([]ledger.Entry, n)
	for p := range min(partitions, n) {
		for offset, e := range newEntries(p, 0, (n-p+partitions-1)/partitions) {
			e.Ranged, e.Key.Pos.Prev = true, int64(offset)-1
			out[p+offset*partitions] = e
		}
	}
	return out
}

// atRate calls f for 0 to n-1, so many a second, whether the calls before have ended or not, and times each from when
// it was due: a stall is seen by all that it held up.
func atRate(ctx context.Context, n, perSecond int, f func(int) error) (suite.Result, error) {
	var mu sync.Mutex
	took := make([]time.Duration, 0, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(10_000)
	begin := time.Now()
	for i := range n {
		due := begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return nil, errors.Join(g.Wait(), ctx.Err())
		}
		g.Go(func() error {
			if err := f(i); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			d := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return suite.Result{suite.P50: suite.Quantile(took, 0.5) / ms, suite.P99: suite.Quantile(took, 0.99) / ms}, nil
}
