package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// BenchmarkInTx is what a transaction of InTx with one insert takes, of a message with a row and of one in a range, beside
// the same insert in a transaction of its own. What is claimed ahead is not timed.
func BenchmarkInTx(b *testing.B) {
	for _, conns := range []int{1, 32} {
		for _, kind := range []string{"bare", "rows", "ranges"} {
			b.Run(fmt.Sprintf("%s/at-once=%d", kind, conns), func(b *testing.B) { benchmarkInTx(b, kind, conns) })
		}
	}
}

func benchmarkInTx(b *testing.B, kind string, conns int) {
	l := newBench(b, variant{})
	cfg := l.pool.Config()
	cfg.MaxConns = int32(conns)
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	own, err := postgres.New(b.Context(), pool, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer own.Close()
	o, err := own.Join(b.Context(), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	tickets := make([]ledger.Ticket, 0, b.N)
	for from := 0; kind != "bare" && from < b.N; from += 1000 {
		entries := kafkaEntries(0, from, min(1000, b.N-from))
		for i := range entries {
			entries[i].Ranged = kind == "ranges"
			entries[i].Key.Pos.Prev = entries[i].Key.Pos.Offset - 1
		}
		claims, err := o.Claim(b.Context(), entries)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range claims {
			tickets = append(tickets, c.Ticket)
		}
	}
	effect := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", "one")
		return err
	}
	do := func(i int) error {
		if kind == "bare" {
			return pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error { return effect(b.Context(), tx) })
		}
		return postgres.InTx(ledger.WithAttempt(b.Context(), ledger.NewAttempt(o, tickets[i])), effect)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range conns {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
