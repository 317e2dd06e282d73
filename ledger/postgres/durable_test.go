package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/integration/services"
	"github.com/ackledger/ackledger/ledger"
)

// TestPitfall107_DurableBehindAPooler: with synchronous_commit=off on the database, and a transaction pooler between, what
// a session had set did not hold for the settle, and the server lost it when it stopped. Here the server is stopped at
// once after each answer. The two exec modes that such poolers need stand in for one: each statement comes with all it
// needs, and no session state is relied on (the sessions' own setting is off).
func TestPitfall107_DurableBehindAPooler(t *testing.T) {
	services.NeedServers(t)
	server, err := services.StartPostgres(t.Context(), services.PostgresOptions{Conf: map[string]string{
		"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	migrate(t, server.URL(), nil)
	b := openBench(t, server.URL(), variant{})
	b.exec(t, "CREATE TABLE effects (id text)")
	b.exec(t, "ALTER DATABASE postgres SET synchronous_commit = off")
	b.exec(t, "CHECKPOINT")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			b := openBench(t, server.URL(), variant{mode: mode})
			o := join(t, b, time.Hour)
			settled, fenced := entry("settled "+mode.String()), entry("fenced "+mode.String())
			restart := func() {
				t.Helper()
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := server.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.pool.Reset()
				b.ResetConns()
			}
			c := claimOne(t, o, settled, ledger.Run)
			a := ledger.NewAttempt(o, claimOne(t, o, fenced, ledger.Run).Ticket)
			if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}); err != nil {
				t.Fatal(err)
			}
			restart()
			err := inTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
				return ctx.Value(inserterKey{}).(inserter)(ctx, mode.String())
			})
			if err != nil {
				t.Fatal(err)
			}
			restart()
			for _, e := range []ledger.Entry{settled, fenced} {
				if r, err := b.Get(t.Context(), e.Key); err != nil || r.State != ledger.Succeeded {
					t.Errorf("after an immediate stop: %+v, %v", r, err)
				}
			}
			if n := b.number(t, "SELECT count(*) FROM effects WHERE id = '"+mode.String()+"'"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}
