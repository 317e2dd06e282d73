package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
)

// TestPitfall14_YoungTable: plans that were made while the table had one page were kept, and scanned it when it was large:
// a cliff on every young deployment. Nothing that looks a message up ever scans the table, however young it is, and
// whatever ran on its connections while it was small.
func TestPitfall14_YoungTable(t *testing.T) {
	t.Parallel()
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for _, mode := range modes {
		for kind, sql := range map[string]bool{"pgx": false, "sql": true} {
			t.Run(mode.String()+" "+kind, func(t *testing.T) {
				t.Parallel()
				testYoung(t, variant{mode: mode, sql: sql})
			})
		}
	}
}

func testYoung(t *testing.T, v variant) {
	t.Helper()
	b := newBench(t, v)
	b.exec(t, "ALTER TABLE ackledger.message SET (autovacuum_enabled = off)")
	b.exec(t, "ALTER TABLE ackledger.archive SET (autovacuum_enabled = off)")
	o := join(t, b, time.Minute)
	before := b.scanned(t)
	liveYoung(t, b, o, "first", 0)
	b.exec(t, "VACUUM ANALYZE ackledger.message") // so that the planner knows that it has one page
	for i := range 8 {                            // plans become generic after the fifth use
		liveYoung(t, b, o, "few", i)
	}
	if v.mode == pgx.QueryExecModeCacheStatement { // one filled table is enough; the others keep no plan
		fill(t, b)
	}
	for i := range 3 {
		liveYoung(t, b, o, "many", i)
	}
	if n := b.scanned(t) - before; n != 0 {
		t.Errorf("messages or archives were scanned %d times", n)
	}
}

// liveYoung does once what workers do, with one message and with a batch.
func liveYoung(t *testing.T, b *bench, o ledger.Owner, name string, round int) {
	t.Helper()
	run := inTx
	if b.sql {
		run = inSQLTx
	}
	effect := func(ctx context.Context) error { return ctx.Value(inserterKey{}).(inserter)(ctx, "effect") }
	for _, n := range []int{1, 3} {
		a, entries := batchAttempt(t, o, name+string(rune('a'+round))+string(rune('0'+n)), n)
		if err := run(ledger.WithAttempt(t.Context(), a), effect); err != nil {
			t.Fatal(err)
		}
		claimOne(t, o, entries[0], ledger.Done)
		if _, err := b.Get(t.Context(), entries[0].Key); err != nil {
			t.Fatal(err)
		}
		a, entries = batchAttempt(t, o, name+string(rune('A'+round))+string(rune('0'+n)), n)
		first := ledger.Settlement{Ticket: a.Ticket(), Kind: ledger.Succeed}
		if n == 1 {
			first = ledger.Settlement{Ticket: a.Ticket(), Kind: ledger.Fail,
				Dead: &ledger.Archive{Key: entries[0].Key, Delivery: entries[0].Delivery, Keep: time.Hour}}
		}
		if err := settleOne(t, o, first); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stats(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// scanned is how often messages and archives were scanned, once every connection that may know of more is closed: a backend
// tells its counts at its end at the latest.
func (b *bench) scanned(t *testing.T) int {
	t.Helper()
	b.pool.Reset()
	b.ResetConns()
	poll(t, "the connections' end", func() bool {
		return b.number(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND pid <> pg_backend_pid() AND backend_type = 'client backend'`) == 0
	})
	return b.number(t, `SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('message', 'archive')`)
}
