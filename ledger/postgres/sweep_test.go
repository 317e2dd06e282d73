package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// fillMessages writes n succeeded messages whose window ended, or ends, in so long.
func fillMessages(t testing.TB, b *bench, n int, expiry time.Duration) {
	t.Helper()
	b.exec(t, `INSERT INTO ackledger.scope (name) VALUES ('s') ON CONFLICT DO NOTHING`)
	b.exec(t, `INSERT INTO ackledger.message (token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id)
		SELECT 1, now() - interval '10 days', now() + $2::bigint * interval '1 microsecond', 1, 2, 0, 0, gen_random_uuid(),
			gen_random_uuid(), convert_to('topic-1-' || i, 'UTF8')
		FROM generate_series(1, $1::integer) i`, n, expiry.Microseconds())
}

// TestPitfall29_BoundedDelete: one DELETE of all that had expired held its locks and its transaction for minutes. However
// much expires, each transaction of the sweep holds a bounded number of rows, behind pages that an earlier sweep has left
// empty as well, and claims and settles go on.
func TestPitfall29_BoundedDelete(t *testing.T) {
	n := 50_000
	if os.Getenv("ACKLEDGER_LONG") != "" {
		n = 1_000_000
	}
	const batch = 1000
	b := newBench(t, variant{})
	fillMessages(t, b, n, -time.Hour)
	b.exec(t, "DELETE FROM ackledger.message")
	b.exec(t, "CREATE TABLE removed (xact xid8, n bigint)")
	b.exec(t, `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO public.removed SELECT pg_current_xact_id(), count(*) FROM gone; RETURN NULL; END $$`)
	b.exec(t, `CREATE TRIGGER note AFTER DELETE ON ackledger.message REFERENCING OLD TABLE AS gone
		FOR EACH STATEMENT EXECUTE FUNCTION note()`)
	fillMessages(t, b, n, -time.Hour)
	fillMessages(t, b, 1000, time.Hour)
	b.exec(t, "VACUUM ackledger.message") // leaves the first half's pages empty, since the second half stands behind them
	o := join(t, b, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	longest := time.Duration(0)
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			claims, err := o.Claim(t.Context(), []ledger.Entry{entry(fmt.Sprint(i))})
			if err != nil || claims[0].Answer != ledger.Run {
				t.Errorf("claim: %+v, %v", claims, err)
				return
			}
			errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}})
			if err != nil || errs[0] != nil {
				t.Errorf("settle: %v, %v", errs, err)
				return
			}
			longest = max(longest, time.Since(began))
		}
	})
	r, err := b.Sweep(t.Context(), ledger.MaintainConfig{Batch: batch})
	cancel()
	wg.Wait()
	if err != nil || r.Messages != int64(n) || r.Locked != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	t.Logf("%d rows in %s: %d transactions, the longest %s; a claim and settle meanwhile took %s at most",
		n, r.Took, r.Transactions, r.Longest, longest)
	noted := b.number(t, "SELECT sum(n)::bigint FROM removed")
	most := b.number(t, "SELECT max(n) FROM (SELECT sum(n)::bigint AS n FROM removed GROUP BY xact) x")
	if noted != n || most > 2*batch {
		t.Errorf("of %d rows %d went in one transaction, want %d at most; %d were noted", n, most, 2*batch, noted)
	}
	if left := b.number(t, "SELECT count(*) FROM ackledger.message WHERE expiry < now()"); left != 0 {
		t.Errorf("%d expired messages are there", left)
	}
}

// TestSweepWaitsForNobody: an expired row that a frozen transaction holds is left for the next pass.
func TestSweepWaitsForNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	fillMessages(t, b, 100, -time.Hour)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "UPDATE ackledger.message SET attempts = 1 WHERE id = 'topic-1-7'"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r, err := b.Sweep(t.Context(), ledger.MaintainConfig{})
	if err != nil || r.Messages != 99 || r.Locked != 1 || time.Since(began) > 20*time.Second {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err = b.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Messages != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestSweepGoesRound: a pass begins where the one before stopped, and sees every page all the same.
func TestSweepGoesRound(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	fillMessages(t, b, 5000, time.Hour)
	pages := b.number(t, "SELECT pg_relation_size('ackledger.message') / 8192")
	for _, from := range []int{0, 1, pages / 2, pages - 1, pages, pages + 100} {
		b.exec(t, "UPDATE ackledger.maintenance SET message_page = $1, archive_page = $1", from)
		r, err := b.Sweep(t.Context(), ledger.MaintainConfig{Batch: 300})
		if err != nil || r.Rows != 5000 {
			t.Errorf("from page %d of %d: %+v, %v", from, pages, r, err)
		}
	}
}

// TestSweepNeedsTheTurn: a process that was frozen beyond its lease removes nothing when it wakes up.
func TestSweepNeedsTheTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	fillMessages(t, b, 100, -time.Hour)
	b.exec(t, "UPDATE ackledger.maintenance SET holder = 2, lease_end = now() + interval '1 minute'")
	for call, want := range map[string]int{
		"(SELECT count(*) FROM ackledger.sweep_message(1, 1, 0, 100, 0))": 0,
		"coalesce(ackledger.sweep_archive(1, 1, 0, 100), -1)":             -1,
		"coalesce(ackledger.sweep_owner(1, '{}'), -1)":                    -1,
		"(SELECT count(*) FROM ackledger.message WHERE expiry < now())":   100,
	} {
		if got := b.number(t, "SELECT "+call); got != want {
			t.Errorf("%s: %d, want %d", call, got, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := b.Sweep(ctx, ledger.MaintainConfig{}); err == nil {
		t.Error("swept beside another")
	}
}

// maxBuffers is less than the table has pages. The first call of a connection reads some 1,000 to 1,600 of the catalogs, so what reads more
// is called again.
const maxBuffers = 1500

// TestPlansOfTheSweep: one transaction of the sweep reads its own pages and no others, whatever the planner believes of
// the tables, at any size of them.
func TestPlansOfTheSweep(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{old: old})
			b.exec(t, "ALTER TABLE ackledger.message SET (autovacuum_enabled = off)")
			b.exec(t, "ALTER TABLE ackledger.archive SET (autovacuum_enabled = off)")
			b.exec(t, "UPDATE ackledger.maintenance SET holder = 1")
			for _, statistics := range []string{"none", "of an empty table", "right", "wrong"} {
				switch statistics {
				case "of an empty table":
					b.exec(t, "VACUUM ANALYZE ackledger.message")
					b.exec(t, "VACUUM ANALYZE ackledger.archive")
					fill(t, b)
					fillLogs(t, b, 0, 20_000)
					b.exec(t, `INSERT INTO ackledger.range_log (log, version, token, top, scope, epoch, name, prefix) VALUES (0, 1, 1, 3e5, 1, 0, '', '')`)
					b.exec(t, `INSERT INTO ackledger.segment (log, first, last, messages, since, until, expiry, kind)
						VALUES (0, 0, 3e5, 3e5, now(), now(), now() + interval '1 day', 1)`)
					startsAt(t, b, 150_000) // to be cut off
					b.exec(t, "UPDATE ackledger.message SET expiry = now() - interval '1 hour' WHERE ctid < '(8,0)'")
					b.exec(t, "CREATE INDEX ON ackledger.message USING brin (expiry)") // an operator's own does not mislead
				case "right":
					b.exec(t, "ANALYZE ackledger.message, ackledger.archive")
				case "wrong":
					b.exec(t, "UPDATE pg_class SET reltuples = 1, relpages = 1 WHERE relnamespace = 'ackledger'::regnamespace AND relkind = 'r'")
				}
				for range 7 { // the plans inside a function become generic after the fifth call
					for _, call := range append(b.CountStatements(0, 10),
						"SELECT * FROM ackledger.sweep_message(1, 1, 0, 10, 0)", "SELECT ackledger.sweep_archive(1, 1, 0, 10)",
						"SELECT ackledger.sweep_log(1, 1, NULL, 2)", "SELECT ackledger.sweep_log(1, 1, 0, 10)", "SELECT ackledger.sweep_log(1, 1, 19900, 10)") {
						n := buffers(t, b, call)
						for again := 0; n > maxBuffers && again < 3; again++ {
							n = buffers(t, b, call)
						}
						if n > maxBuffers {
							t.Errorf("%s, statistics: %s: read %d buffers", call, statistics, n)
						}
					}
				}
			}
			for _, table := range []string{"message", "segment"} {
				if n := b.number(t, "SELECT pg_relation_size('ackledger."+table+"') / 8192"); n < maxBuffers {
					t.Errorf("table %s has %d pages: it says nothing", table, n)
				}
			}
		})
	}
}

// buffers is how many pages a statement touched; it is rolled back.
func buffers(t *testing.T, b *bench, sql string) (n int) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		var text []byte
		if _, err := tx.Exec(t.Context(), postgres.SweepTune); err != nil {
			return err
		}
		if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql).Scan(&text); err != nil {
			return err
		}
		var plans []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal(text, &plans); err != nil {
			return err
		}
		n = plans[0].Plan.Hit + plans[0].Plan.Read
		return tx.Rollback(t.Context())
	})
	if err != nil && n == 0 {
		t.Fatal(err)
	}
	return n
}

// TestPendingBelowWhatIsFinished: what is pending in an open range is counted, though the offsets above it are finished.
func TestPendingBelowWhatIsFinished(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	claimsOf(t, o, records("s", 0, 0, 10), ledger.Run)
	succeedAll(t, o, claimsOf(t, o, records("s", 0, 10, 15), ledger.Run))
	report, err := b.Sweep(t.Context(), ledger.MaintainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Stats(t.Context())
	if err != nil || len(s.Scopes) != 1 || s.Scopes[0].Pending != 10 || s.Scopes[0].Succeeded != 15 {
		t.Errorf("%+v, %v", s.Scopes, err)
	}
	if report.Longest <= 0 || report.Longest > report.Took {
		t.Errorf("the longest transaction took %s, the pass %s", report.Longest, report.Took)
	}
}

// TestScopeNumberedDuringAPass: messages of a scope that was numbered since the pass has read the names are counted all the same,
// under its name.
func TestScopeNumberedDuringAPass(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	claimsOf(t, join(t, b, time.Minute), manyEntries("m", 3), ledger.Run)
	b.exec(t, "ALTER TABLE ackledger.scope RENAME TO scopes")
	b.exec(t, "CREATE SEQUENCE reads")
	b.exec(t, "CREATE VIEW ackledger.scope AS SELECT * FROM ackledger.scopes WHERE nextval('reads') > 1") // the first one finds none
	report, err := b.Sweep(t.Context(), ledger.MaintainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Stats(t.Context())
	if err != nil || report.Rows != 3 || len(s.Scopes) != 1 || s.Scopes[0].Pending != 3 || s.Scopes[0].Scope != "scope" {
		t.Errorf("%d rows, %+v, %v", report.Rows, s.Scopes, err)
	}
}

// TestTurnOfAnother: a process that lost its turn to sweep gives back nobody else's, and learns of it.
func TestTurnOfAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, "UPDATE ackledger.maintenance SET holder = 7, lease_end = now() + interval '1 minute'")
	if err := b.EndTurn(t.Context(), 8); err == nil {
		t.Error("a turn that was lost is given back")
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.maintenance WHERE holder = 7 AND lease_end > now()"); n != 1 {
		t.Error("another's turn is over")
	}
	if err := b.EndTurn(t.Context(), 7); err != nil {
		t.Error(err)
	}
}

// TestMaintainTakesTheTurnOfTheDead: a process that died while it swept is waited for as long as its turn goes, and not for an
// interval.
func TestMaintainTakesTheTurnOfTheDead(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, "UPDATE ackledger.maintenance SET holder = 7, lease_end = now() + interval '300 milliseconds'")
	ctx, cancel := context.WithCancel(t.Context())
	var maintain sync.WaitGroup
	maintain.Go(func() { _ = b.Maintain(ctx, ledger.MaintainConfig{Interval: time.Hour}) })
	poll(t, "a pass has ended", func() bool {
		return b.number(t, "SELECT count(*) FROM ackledger.maintenance WHERE seen_at IS NOT NULL") == 1
	})
	cancel()
	maintain.Wait()
}

// TestSweepEndsTheArchiveFirst: where a pass was cut short in the archive, the next one goes on there before it looks at any
// message: passes that are always cut short would else never come to the archive's end.
func TestSweepEndsTheArchiveFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	key := failOnce(t, b, "a", "d")
	b.exec(t, "DELETE FROM ackledger.message")
	b.exec(t, "UPDATE ackledger.archive SET expiry = now() - interval '1 hour'")
	b.exec(t, "UPDATE ackledger.maintenance SET archive_page = 0, archive_before = now()")
	b.exec(t, "ALTER FUNCTION ackledger.sweep_message RENAME TO away") // the pass ends there
	claimOne(t, join(t, b, time.Minute), entry("b"), ledger.Run)
	if _, err := b.Sweep(t.Context(), ledger.MaintainConfig{}); err == nil {
		t.Error("a pass without its function")
	}
	if rec, err := b.Get(t.Context(), key); !errors.Is(err, ledger.ErrNotFound) || len(rec.Archived) != 0 {
		t.Errorf("%d archived, %v", len(rec.Archived), err)
	}
}
