package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestBoard: on the newest and the oldest server, in the ways to send a statement, and by an operator's role.
func TestBoard(t *testing.T) {
	t.Parallel()
	variants := map[string]variant{"18": {}, "14": {old: true}}
	for _, mode := range modes() {
		variants[mode.String()] = variant{mode: mode}
	}
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := newBench(t, v).store()
			ledgertest.RunBoard(t, func(*testing.T) ledgertest.Store { return shared })
		})
	}
	t.Run("Operator", func(t *testing.T) {
		t.Parallel()
		admin, role := asRole(t, postgres.Operator, false)
		shared, of := role.store(), admin.store()
		shared.Declare, shared.DropOwner, shared.DSN = of.Declare, of.DropOwner, ""
		ledgertest.RunBoard(t, func(*testing.T) ledgertest.Store { return shared })
	})
}

// A worker's role reports, and reads the pauses, but sets none. An operator's does not say since when.
func TestBoardRights(t *testing.T) {
	t.Parallel()
	by := ledger.By{Actor: "x"}
	admin, worker := asRole(t, postgres.Worker, false)
	if err := admin.Pause(t.Context(), "s", by); err != nil {
		t.Fatal(err)
	}
	o := join(t, worker, time.Minute)
	b := ledger.BoardedOf(o)
	b.Report(ledger.WorkerReport{PID: 7, Started: time.Now()})
	if _, err := o.Beat(t.Context()); err != nil || len(b.Pauses()) != 1 {
		t.Errorf("%v: %+v", err, b.Pauses())
	}
	if all, err := worker.Workers(t.Context()); err != nil || len(all) != 1 || all[0].Report.PID != 7 {
		t.Errorf("%v: %+v", err, all)
	}
	for what, err := range map[string]error{"pause": worker.Pause(t.Context(), "t", by), "resume": second(worker.Resume(t.Context(), "s", by))} {
		if !ledger.Unusable(err) || !strings.Contains(err.Error(), "lacks a privilege") {
			t.Errorf("%s by a worker's role: %v", what, err)
		}
	}
	for _, sql := range []string{"INSERT INTO ackledger.pause (scope, actor, reason) VALUES ('', 'x', '')", "DELETE FROM ackledger.pause", "UPDATE ackledger.pause SET actor = 'y'"} {
		if !refusedOn(t, worker, sql) {
			t.Errorf("%s: let through", sql)
		}
	}
	if !outOfBounds(t, worker, "UPDATE ackledger.owner SET report = decode(repeat('00', 5000), 'hex')") {
		t.Error("a report of 5,000 bytes: let through")
	}
	worker.exec(t, "UPDATE ackledger.owner SET report = '\\xff00'")
	if all, err := worker.Workers(t.Context()); err != nil || len(all) != 1 || all[0].Fate != ledger.Live || all[0].Report.PID != 0 {
		t.Errorf("what is no report: %v: %+v", err, all)
	}
	_, operator := asRole(t, postgres.Operator, false)
	for _, sql := range []string{
		"INSERT INTO ackledger.pause (scope, actor, reason, since) VALUES ('', 'x', '', '2001-01-01')", "UPDATE ackledger.pause SET since = now()", "TRUNCATE ackledger.pause",
	} {
		if !refusedOn(t, operator, sql) {
			t.Errorf("%s: let through", sql)
		}
	}
}

func second(_ bool, err error) error { return err }

// TestFromFourteen: workers of version 14 go on through the migration, and one of now works on their schema, without reports and pauses.
// Roles that were granted before have what they need.
func TestFromFourteen(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 14); err != nil {
		t.Fatal(err)
	}
	b := openBench(t, db.URL, variant{})
	old := joinOld(t, b)
	o := join(t, b, time.Minute)
	board := ledger.BoardedOf(o)
	beats := func(when string) {
		t.Helper()
		board.Report(ledger.WorkerReport{PID: 7, Started: time.Now()})
		if _, err := o.Beat(t.Context()); err != nil {
			t.Errorf("%s: a beat of now: %v", when, err)
		}
		if err := old.beat(t.Context()); err != nil {
			t.Errorf("%s: a beat of version 14: %v", when, err)
		}
	}
	beats("before the migration")
	if hold, err := b.Pauses(t.Context()); err != nil || hold != nil {
		t.Errorf("before the migration: %v, %v", hold, err)
	}
	if _, err := b.Workers(t.Context()); !ledger.Unusable(err) || !strings.Contains(err.Error(), "postgres.Migrate") {
		t.Errorf("before the migration: %v", err)
	}
	if err := b.Pause(t.Context(), "s", ledger.By{Actor: "x"}); !ledger.Unusable(err) {
		t.Errorf("before the migration: %v", err)
	}
	for _, right := range []string{"SELECT ON ackledger.message", "SELECT, UPDATE ON ackledger.archive"} {
		name := strings.ToLower(services.Name(t))
		b.exec(t, "CREATE ROLE "+name)
		b.exec(t, "GRANT "+right+" TO "+name)
		t.Cleanup(func() { // t.Context is over here
			for _, sql := range []string{"DROP OWNED BY " + name, "DROP ROLE " + name} {
				if err := execOn(context.Background(), db.URL, sql); err != nil {
					t.Errorf("%s: %v", sql, err)
				}
			}
		})
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	granted := b.number(t, "SELECT count(*) FROM information_schema.table_privileges WHERE table_name = 'pause' AND grantee <> current_user AND privilege_type IN ('SELECT', 'DELETE')")
	if granted != 2 {
		t.Errorf("%d grants on pauses, want one to read and one to delete", granted)
	}
	beats("after the migration")
	o = join(t, b, time.Minute)
	board = ledger.BoardedOf(o)
	if err := b.Pause(t.Context(), "s", ledger.By{Actor: "x"}); err != nil {
		t.Fatal(err)
	}
	beats("joined anew")
	if len(board.Pauses()) != 1 {
		t.Errorf("joined anew: %+v", board.Pauses())
	}
	if err := postgres.MigrateTo(t.Context(), conn, 14); err != nil { // a deploy that is taken back
		t.Fatal(err)
	}
	beats("migrated down")
	if len(board.Pauses()) != 1 {
		t.Errorf("the pauses that were known last are forgotten: %+v", board.Pauses())
	}
}

// Beats with reports of any size are HOT, and no page of what is kept out of line is written.
func TestReportsAreHot(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	var owners []ledger.Owner
	for range 5 {
		owners = append(owners, join(t, b, time.Minute))
	}
	const rounds = 200
	for n := range rounds {
		r := ledger.WorkerReport{Scope: "s", Started: time.Now(), Succeeded: int64(n)}
		for i := range n % 60 {
			r.Lag = append(r.Lag, ledger.Lag{Source: fmt.Sprintf("topic-%d-%x", i, n*7919+i), Waiting: int64(n * i)})
		}
		for _, o := range owners {
			ledger.BoardedOf(o).Report(r)
			if _, err := o.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	poll(t, "the beats are counted", func() bool {
		return b.number(t, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'owner'") >= rounds*len(owners)*9/10
	})
	if hot := b.number(t, "SELECT n_tup_hot_upd * 100 / n_tup_upd FROM pg_stat_user_tables WHERE relname = 'owner'"); hot < 70 { // somebody's snapshot may be open for a while
		t.Errorf("%d %% of the beats were HOT", hot)
	}
	if n := b.number(t, "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'ackledger.owner'::regclass"); n != 0 {
		t.Errorf("%d bytes are out of line", n)
	}
}
