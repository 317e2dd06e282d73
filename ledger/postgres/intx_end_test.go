package postgres_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// breaker is a tracer that does not return from the start of a batch, or from its end, once it is armed.
type breaker struct {
	how          func()
	atEnd, armed atomic.Bool
}

func (b *breaker) at(end bool) {
	if b.atEnd.Load() == end && b.armed.CompareAndSwap(true, false) {
		b.how()
	}
}

func (b *breaker) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (b *breaker) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	b.at(false)
	return ctx
}

func (b *breaker) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (b *breaker) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (b *breaker) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     { b.at(true) }

// broken runs a test for each way not to return.
func broken(t *testing.T, test func(t *testing.T, b *bench, tracer *breaker)) {
	t.Parallel()
	for name, how := range map[string]func(){"panic": func() { panic("a tracer") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newBench(t, variant{}).url
			c, err := pgxpool.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			tracer := &breaker{how: how}
			c.ConnConfig.Tracer = tracer
			pool, err := pgxpool.NewWithConfig(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			l, err := postgres.New(t.Context(), pool, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				l.Close()
				pool.Close()
			})
			test(t, &bench{Ledger: l, pool: pool, url: url}, tracer)
		})
	}
}

// breakOff runs one InTx whose settling does not return.
func breakOff(a *ledger.Attempt, tracer *breaker) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { _ = recover() }()
		_ = inTx(ledger.WithAttempt(context.Background(), a), func(ctx context.Context) error {
			err := oneEffect(ctx)
			tracer.armed.Store(true)
			return err
		})
	}()
	<-over
}

// TestPitfall187_FenceDoesNotReturn: a fence in a range that did not return was under way for ever, and each settlement waited for it.
func TestPitfall187_FenceDoesNotReturn(t *testing.T) {
	broken(t, func(t *testing.T, b *bench, tracer *breaker) {
		o := join(t, b, time.Minute)
		quickest := time.Hour // each would wait; a busy machine stalls one or the other
		for log := range 5 {
			claims := claimsOf(t, o, records("s", log, 0, 3), ledger.Run)
			a := ledger.NewAttempt(o, claims[1].Ticket)
			breakOff(a, tracer)
			if state, err := a.State(); state != ledger.AttemptOpen || err == nil {
				t.Errorf("state %d, %v", state, err)
			}
			began := time.Now()
			if err := settleOne(t, o, ledger.Settlement{Ticket: claims[2].Ticket, Kind: ledger.Release, Count: true}); err != nil {
				t.Error(err)
			}
			quickest = min(quickest, time.Since(began))
		}
		if quickest > 800*time.Millisecond {
			t.Errorf("the quickest settlement took %s", quickest)
		}
	})
}

// TestPitfall185_NoReturnBehindTheCommit: what was committed, before something did not return, counted as rolled back. The engine runs the messages of
// such a batch one by one then, and in a range all but the first had their effects twice.
func TestPitfall185_NoReturnBehindTheCommit(t *testing.T) {
	broken(t, func(t *testing.T, b *bench, tracer *breaker) {
		tracer.atEnd.Store(true)
		o := join(t, b, time.Minute)
		for name, all := range map[string][]ledger.Entry{"rows": manyEntries("b", 3), "a range": records("s", 0, 0, 3)} {
			a := ledger.NewBatchAttempt(o, ticketsOf(claimsOf(t, o, all, ledger.Run)))
			breakOff(a, tracer)
			if state, err := a.State(); state != ledger.AttemptSucceeded {
				t.Errorf("%s: state %d, %v", name, state, err)
			}
			claimsOf(t, o, all, ledger.Done)
		}
		if n := b.number(t, "SELECT count(*) FROM effects"); n != 2 {
			t.Errorf("%d effects", n)
		}
	})
}
