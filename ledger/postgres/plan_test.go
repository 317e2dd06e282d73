package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// planRows is how many messages lie in the table that the plans are made for.
const planRows = 100_000

// TestPitfall14_Plans: a settle scanned the whole scope, forty times slower, when statistics were young. Whatever the
// planner believes, custom plan or generic, it looks keys up by the primary key and scans no table.
func TestPitfall14_Plans(t *testing.T) {
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{old: old})
			o, err := b.Join(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			b.exec(t, "ALTER TABLE ackledger.message SET (autovacuum_enabled = off)")
			b.exec(t, "ALTER TABLE ackledger.archive SET (autovacuum_enabled = off)")
			b.exec(t, "ANALYZE ackledger.message, ackledger.archive, ackledger.owner")
			for _, statistics := range []string{"none", "of an empty table", "right", "wrong"} {
				switch statistics {
				case "of an empty table": // VACUUM writes zero pages, which a plan would take at its word
					b.exec(t, "VACUUM ANALYZE ackledger.message")
					b.exec(t, "VACUUM ANALYZE ackledger.archive")
					b.exec(t, "VACUUM ANALYZE ackledger.owner")
				case "right":
					fill(t, b)
					b.exec(t, "ANALYZE ackledger.message, ackledger.archive, ackledger.owner")
				case "wrong":
					b.exec(t, "UPDATE pg_class SET reltuples = 1, relpages = 1 WHERE relnamespace = 'ackledger'::regnamespace")
				}
				for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
					checkPlans(t, b, o, statistics+", "+mode, mode)
				}
			}
		})
	}
}

// fill writes messages that are all settled, and an archive for every tenth.
func fill(t *testing.T, b *bench) {
	t.Helper()
	b.exec(t, `INSERT INTO ackledger.scope (name) VALUES ('s')`)
	b.exec(t, `INSERT INTO ackledger.message (token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id)
		SELECT 1, now(), now() + interval '1 day', 1, 2, 0, 0, gen_random_uuid(), gen_random_uuid(), 'id'
		FROM generate_series(1, $1::integer)`, planRows)
	b.exec(t, `INSERT INTO ackledger.archive (token, sent_at, at, expiry, scope, attempts, published, key, fingerprint,
		delivery, id, kind, source, grp)
		SELECT 1, now(), now(), now(), 1, 1, true, key, fingerprint, 'd', 'id', 'error', '', ''
		FROM ackledger.message LIMIT $1::integer`, planRows/10)
}

func checkPlans(t *testing.T, b *bench, o ledger.Owner, what, mode string) {
	t.Helper()
	entries := kafkaEntries(0, 0, 500)
	var succeeded, failed []ledger.Settlement
	for i := range entries {
		ticket := ledger.NewTicket(entries[i].Key.Sum(), 1)
		succeeded = append(succeeded, ledger.Settlement{Ticket: ticket, Kind: ledger.Succeed})
		failed = append(failed, ledger.Settlement{Ticket: ticket, Kind: ledger.Fail,
			Dead: &ledger.Archive{Key: entries[i].Key, Delivery: entries[i].Delivery, Keep: time.Hour}})
	}
	until := time.Now().Add(time.Hour)
	for name, s := range map[string]postgres.Statement{
		"claim":   postgres.ClaimStatement(o, entries, until),
		"succeed": postgres.SettleStatement(o, succeeded, until),
		"fail":    postgres.SettleStatement(o, failed, until),
	} {
		plan := explain(t, b, s, mode)
		for _, bad := range []string{"Seq Scan", "Hash Join", "Merge Join", "Hash Anti", "JIT"} {
			if strings.Contains(plan, bad) {
				t.Errorf("%s, statistics: %s: the plan has a %s\n%s", name, what, bad, plan)
			}
		}
		lines := strings.Split(plan, "\n")
		for i, line := range lines {
			if strings.Contains(line, "Index") && strings.Contains(line, " using ") &&
				(!strings.Contains(line, "_pkey") || !strings.Contains(lines[i+1], "Index Cond: ")) {
				t.Errorf("%s, statistics: %s: no look-up by the primary key: %s\n%s", name, what, line, plan)
			}
		}
	}
}

// explain returns the plan that the ledger's own settings lead to, with the plan mode forced.
func explain(t *testing.T, b *bench, s postgres.Statement, mode string) string {
	t.Helper()
	var lines []string
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), s.Tune); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), fmt.Sprintf("SET LOCAL plan_cache_mode = %s", mode)); err != nil {
			return err
		}
		if mode == "force_generic_plan" {
			var err error
			lines, err = explainGeneric(t, tx, s)
			return err
		}
		rows, err := tx.Query(t.Context(), "EXPLAIN "+s.SQL, s.Args...)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	return strings.Join(lines, "\n")
}

// explainGeneric explains a prepared statement, whose generic plan knows nothing of the arguments, so that any will do.
func explainGeneric(t *testing.T, tx pgx.Tx, s postgres.Statement) ([]string, error) {
	t.Helper()
	nulls := make([]string, len(s.Args))
	for i := range nulls {
		nulls[i] = "NULL"
	}
	if _, err := tx.Exec(t.Context(), "PREPARE p AS "+s.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, err
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN EXECUTE p("+strings.Join(nulls, ", ")+")", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(t.Context(), "DEALLOCATE p")
	return lines, err
}
