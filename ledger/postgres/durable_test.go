package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
)

// TestPitfall107_DurableBehindAPooler: with synchronous_commit=off on the database, and a transaction pooler between, what
// a session had set did not hold for the settle, and the server lost it when it stopped. Here the server is stopped at
// once after each answer. The two exec modes that such poolers need stand in for one: each statement comes with all it
// needs, and no session state is relied on (the sessions' own setting is off).
func TestPitfall107_DurableBehindAPooler(t *testing.T) {
	t.Parallel()
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
			durableBatches(t, b, o, mode.String())
		})
	}
}

// durableBatches claims and settles three messages in a call, in each way that has a statement of its own.
func durableBatches(t *testing.T, b *bench, o ledger.Owner, name string) {
	t.Helper()
	claim := func(what string, entries []ledger.Entry) (claims []ledger.Claim) {
		t.Helper()
		b.durably(t, what, func() { claims = claimsOf(t, o, entries, ledger.Run) })
		return claims
	}
	settle := func(what string, claims []ledger.Claim, as func(i int) ledger.Settlement) {
		t.Helper()
		settlements := make([]ledger.Settlement, len(claims))
		for i, c := range claims {
			settlements[i] = as(i)
			settlements[i].Ticket = c.Ticket
		}
		b.durably(t, what, func() {
			errs, err := o.Settle(t.Context(), settlements)
			if err := errors.Join(append(errs, err)...); err != nil {
				t.Fatal(err)
			}
		})
	}
	succeed := func(int) ledger.Settlement { return ledger.Settlement{Kind: ledger.Succeed} }
	release := func(int) ledger.Settlement { return ledger.Settlement{Kind: ledger.Release} }

	entries := manyEntries(name, 3)
	settle("releases", claim("claims of new messages", entries), release)
	settle("successes alike", claim("claims of known messages", entries), succeed)
	entries = manyEntries(name+" with a result", 3)
	settle("successes, one with a result", claim("claims of new messages", entries), func(i int) ledger.Settlement {
		return ledger.Settlement{Kind: ledger.Succeed, Result: [][]byte{[]byte("result"), nil, nil}[i]}
	})
	entries = manyEntries(name+" failed", 3)
	settle("failures", claim("claims of new messages", entries), func(i int) ledger.Settlement {
		return ledger.Settlement{Kind: ledger.Fail, Dead: &ledger.Archive{
			Key: entries[i].Key, Delivery: entries[i].Delivery, Body: []byte("body"), Keep: time.Hour}}
	})
	settle("a range settled", claim("a range of a new log claimed", records(name, 0, 0, 3)), succeed)
	settle("the next range settled", claim("the next range claimed", records(name, 0, 3, 3)), succeed) // by the short statements
}

// durably makes a call that writes, and fails if the server answers it before it has flushed any of that. The position at
// which the write-ahead log begins to take it is behind all that was written, and perhaps not flushed, before.
func (b *bench) durably(t *testing.T, what string, call func()) {
	t.Helper()
	before := b.number(t, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
	call()
	if flushed := b.number(t, "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint"); flushed <= before {
		t.Errorf("%s: answered, but the log is flushed up to %d alone, and they came behind %d", what, flushed, before)
	}
}
