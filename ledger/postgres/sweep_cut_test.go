package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/ledger"
)

// startsAt has a log begin at an offset, as workers have found it two hours ago.
func startsAt(t *testing.T, b *bench, offset int) {
	t.Helper()
	b.exec(t, `ALTER TABLE ackledger.range_log DISABLE TRIGGER USER`)
	b.exec(t, `UPDATE ackledger.range_log SET start = $1, start_at = now() - interval '2 hours'`, offset)
	b.exec(t, `ALTER TABLE ackledger.range_log ENABLE TRIGGER USER`)
}

// TestSweepCutsInSteps: a log that lost a file leaves a row for each result below its start. One transaction wrote them all,
// was ended for its length at every pass, and kept the archive and the owners from being swept.
func TestSweepCutsInSteps(t *testing.T) {
	t.Parallel()
	const all, start, step = 3600, 3500, 1000 // a hundred rows for each of Batch/10 logs
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	var done []ledger.Settlement
	for _, c := range claimsOf(t, o, records("s", 0, 0, all), ledger.Run) {
		done = append(done, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("result")})
	}
	if errs, err := o.Settle(t.Context(), done); err != nil || errors.Join(errs...) != nil {
		t.Fatal(errs, err)
	}
	succeedAll(t, o, claimsOf(t, o, records("s", 1, 0, 5), ledger.Run)) // another log
	startsAt(t, b, start)
	for range 2 { // the first has counted what it cut off before it did
		if _, err := b.Sweep(t.Context(), ledger.MaintainConfig{Batch: 100}); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message WHERE covered"); n != all-start {
		t.Errorf("%d rows are covered", n)
	}
	if n := b.number(t, "SELECT max(n) FROM (SELECT count(*) AS n FROM ackledger.message WHERE covered IS NULL GROUP BY xmin::text) s"); n > step {
		t.Errorf("one transaction wrote %d rows", n)
	}
	if n := b.number(t, "SELECT first FROM ackledger.segment WHERE last = 3600"); n != start {
		t.Errorf("the segment begins at %d", n)
	}
	s, err := b.Stats(t.Context())
	if err != nil || s.Scopes[0].Succeeded != all+5 {
		t.Errorf("%+v, %v", s.Scopes, err)
	}
}

// TestSweepDropsSegmentsInSteps: the same for segments that expire together.
func TestSweepDropsSegmentsInSteps(t *testing.T) {
	t.Parallel()
	const all, step = 2500, 1000
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	succeedAll(t, o, claimsOf(t, o, records("s", 0, 0, 5), ledger.Run))
	b.exec(t, `CREATE TABLE gone (xid bigint)`)
	b.exec(t, `CREATE FUNCTION note_gone() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN
		INSERT INTO gone VALUES (txid_current()); RETURN NULL; END $$`)
	b.exec(t, `CREATE TRIGGER note_gone AFTER DELETE ON ackledger.segment FOR EACH ROW EXECUTE FUNCTION note_gone()`)
	b.exec(t, `INSERT INTO ackledger.segment (log, first, last, messages, since, until, expiry, kind)
		SELECT log, i * 10, i * 10 + 5, 5, since, until, now() - interval '1 hour', 1 FROM ackledger.segment, generate_series(1, $1::integer) i`, all)
	if _, err := b.Sweep(t.Context(), ledger.MaintainConfig{Batch: 100}); err != nil {
		t.Fatal(err)
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.segment"); n != 1 {
		t.Errorf("%d segments are left", n)
	}
	if n := b.number(t, "SELECT max(n) FROM (SELECT count(*) AS n FROM gone GROUP BY xid) s"); n > step {
		t.Errorf("one transaction dropped %d segments", n)
	}
}

// TestSweepGoesOnPastLogs: what keeps logs from being swept keeps nothing else from it, and is told.
func TestSweepGoesOnPastLogs(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, `INSERT INTO ackledger.scope (name) VALUES ('s')`)
	b.exec(t, `INSERT INTO ackledger.archive (token, sent_at, at, expiry, scope, attempts, published, key, fingerprint, delivery, id,
		kind, source, grp)
		SELECT 1, now(), now(), now() - interval '1 day', 1, 1, true, gen_random_uuid(), gen_random_uuid(), 'd', 'id', 'error', '', ''
		FROM generate_series(1, 10) i`)
	b.exec(t, `CREATE OR REPLACE FUNCTION ackledger.sweep_log(me bigint, lease bigint, past bigint, n bigint)
		RETURNS TABLE (last_log bigint) LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'as if out of disk' USING ERRCODE = 'disk_full'; END $$`)
	r, err := b.Sweep(t.Context(), ledger.MaintainConfig{})
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "as if out of disk") {
		t.Errorf("%v", err)
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.archive"); n != 0 || r.Archives != 10 {
		t.Errorf("%d archives are left; %+v", n, r)
	}
}

// TestSweepWaitsForTheLogInHand: between two steps in a log that is in use somebody takes its lock. The sweep left the log then,
// for the rest of the pass.
func TestSweepWaitsForTheLogInHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	succeedAll(t, o, claimsOf(t, o, records("s", 0, 0, 100), ledger.Run))
	startsAt(t, b, 50)
	b.exec(t, "UPDATE ackledger.maintenance SET holder = 1")
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM ackledger.range_log FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	const from = "SELECT first FROM ackledger.segment"
	b.exec(t, "SELECT ackledger.sweep_log(1, 1, NULL, 10)")
	if n := b.number(t, from); n != 0 {
		t.Fatalf("a log that another has is cut at %d", n)
	}
	swept := make(chan error, 1)
	go func() {
		_, err := b.pool.Exec(t.Context(), "SELECT ackledger.sweep_log(1, 1, log - 1, 10) FROM ackledger.range_log")
		swept <- err
	}()
	for b.number(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
		select {
		case err := <-swept:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
	}
	if err := errors.Join(tx.Rollback(t.Context()), <-swept); err != nil {
		t.Fatal(err)
	}
	if n := b.number(t, from); n != 50 {
		t.Errorf("the segment begins at %d", n)
	}
}

// TestSweepDissolvesALogATransaction: of ranges in two logs whose owner died long ago, those of one are made rows before those of
// the other: claims of one log never wait for what is done in another.
func TestSweepDissolvesALogATransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	claimsOf(t, o, append(records("s", 0, 0, 3), records("s", 1, 0, 3)...), ledger.Run)
	declareDead(t, b, o)
	b.exec(t, "UPDATE ackledger.owner SET sealed = now() - interval '30 days'")
	if _, err := b.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	if rows, transactions := b.number(t, "SELECT count(*) FROM ackledger.message"), b.number(t, "SELECT count(DISTINCT xmin::text) FROM ackledger.message"); rows != 6 || transactions != 2 {
		t.Errorf("%d rows, want 6, of %d transactions, want 2", rows, transactions)
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message m JOIN ackledger.scope s ON s.id = m.scope WHERE s.name = 's'"); n != 6 {
		t.Errorf("%d rows of the scope, want 6", n)
	}
}
