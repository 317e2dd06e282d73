package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// trips counts what goes to the server: batches, and single queries.
type trips struct{ batches, queries atomic.Int32 }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}
func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}
func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A handler with one statement takes two round trips, and one with none takes one.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	cfg, counted := l.pool.Config(), &trips{}
	cfg.ConnConfig.Tracer = counted
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	traced, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	o, err := traced.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for want, do := range map[int32]func(ctx context.Context, tx pgx.Tx) error{
		1: func(context.Context, pgx.Tx) error { return nil },
		2: func(ctx context.Context, tx pgx.Tx) error { return run(ctx, tx, insertEffect, "one") },
		3: func(ctx context.Context, tx pgx.Tx) error {
			return errors.Join(run(ctx, tx, insertEffect, "one"), run(ctx, tx, insertEffect, "two"))
		},
	} {
		a := ledger.NewAttempt(o, claimOne(t, o, entry(fmt.Sprint(want)), ledger.Run).Ticket)
		batches, queries := counted.batches.Load(), counted.queries.Load()
		if err := postgres.InTx(ledger.WithAttempt(t.Context(), a), do); err != nil {
			t.Fatal(err)
		}
		batches, queries = counted.batches.Load()-batches, counted.queries.Load()-queries
		if batches != min(want, 2) || queries != max(want-2, 0) {
			t.Errorf("%d batches and %d queries, want %d in all", batches, queries, want)
		}
	}
}

// A fence that fails leaves its connection to the pool.
func TestFailedFenceKeepsItsConnection(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	lose := func(key string) {
		claim := claimOne(t, o, entry(key), ledger.Run)
		a := ledger.NewAttempt(o, claim.Ticket)
		err := postgres.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx pgx.Tx) error {
			if err := settleOne(t, o, ledger.Settlement{Ticket: claim.Ticket, Kind: ledger.Release}); err != nil {
				return err
			}
			return run(ctx, tx, insertEffect, "one")
		})
		if state, _ := a.State(); !ledger.IsLost(err) || state != ledger.AttemptLost {
			t.Errorf("%v, state %d", err, state)
		}
	}
	lose("a")
	before := l.pool.Stat().NewConnsCount()
	lose("b")
	if made := l.pool.Stat().NewConnsCount() - before; made != 0 {
		t.Errorf("%d connections were made", made)
	}
}
