package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// endless notes what waits for the database without a deadline. It is a tracer of pgx.
type endless struct {
	mu    sync.Mutex
	asked int
	found []string
}

func (e *endless) note(ctx context.Context, what string) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if _, ok := ctx.Deadline(); !ok {
		e.found = append(e.found, what)
	}
	return ctx
}

func (e *endless) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return e.note(ctx, data.SQL)
}

func (e *endless) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (e *endless) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return e.note(ctx, data.Batch.QueuedQueries[data.Batch.Len()-1].SQL)
}

func (e *endless) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (e *endless) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (e *endless) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return e.note(ctx, "a connection")
}

func (e *endless) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {}

// TestSweepWaitsForNothingForEver: a sweep that dissolved ranges when the network was cut without a word waited for ever, and
// kept its connection.
func TestSweepWaitsForNothingForEver(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	claimsOf(t, o, append(records("s", 0, 0, 3), records("s", 1, 0, 3)...), ledger.Run)
	if err := o.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "UPDATE ackledger.owner SET sealed = now() - interval '2 hours' WHERE fate <> 1")
	waits := &endless{}
	cfg := b.pool.Config()
	cfg.ConnConfig.Tracer = waits
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message"); n != 6 {
		t.Errorf("%d messages left their ranges, want 6", n)
	}
	waits.mu.Lock()
	defer waits.mu.Unlock()
	if waits.asked == 0 || len(waits.found) > 0 {
		t.Errorf("of %d waits these have no deadline: %q", waits.asked, waits.found)
	}
}
