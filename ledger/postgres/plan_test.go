package postgres_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// planSizes are how many messages lie in the table that the plans are made for, one after the other.
func planSizes() []int {
	sizes := []int{0, 1000, 100_000}
	if os.Getenv("ACKLEDGER_LONG") != "" {
		sizes = append(sizes, 1_000_000, 10_000_000)
	}
	return sizes
}

// planModes are the ways to a plan: with the arguments known (unnamed statements, as poolers need them), without them (a
// statement that was prepared once), and with the arguments as text.
var planModes = []string{"custom", "generic", "simple"}

// planStatistics are what the planner may believe of a table. The first two are what is found after the table was filled.
var planStatistics = []struct {
	name string
	sql  []string
}{
	{"stale", nil}, // those of the table before it grew; of the first one, none
	{"of an empty table", []string{
		"DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'ackledger'::regnamespace)",
		"UPDATE pg_class SET reltuples = 0, relpages = 0, relallvisible = 0 WHERE relnamespace = 'ackledger'::regnamespace"}},
	{"none", []string{"UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relnamespace = 'ackledger'::regnamespace"}},
	{"wrong: one row", []string{"UPDATE pg_class SET reltuples = 1, relpages = 1 WHERE relnamespace = 'ackledger'::regnamespace"}},
	// A page holds some 250 rows. With ten times as many as here, PostgreSQL 14 expects a look-up to cost more than what
	// enable_seqscan adds to a scan.
	{"wrong: many rows", []string{"UPDATE pg_class SET reltuples = 1e8, relpages = 1 WHERE relnamespace = 'ackledger'::regnamespace"}},
	{"right", []string{"VACUUM ANALYZE ackledger.message", "VACUUM ANALYZE ackledger.archive", "VACUUM ANALYZE ackledger.owner",
		"VACUUM ANALYZE ackledger.range_log", "VACUUM ANALYZE ackledger.segment", "VACUUM ANALYZE ackledger.claim_range"}},
}

// TestPitfall14_Plans: a settle scanned the whole scope, forty times slower, when statistics were young. Whatever the
// planner believes, and however it is asked, it looks messages up by their keys, and scans no table that grows.
func TestPitfall14_Plans(t *testing.T)          { testPlans(t, variant{}) }
func TestPlans_OldestServer(t *testing.T)       { testPlans(t, variant{old: true}) }
func TestPlans_NeedTheSettings(t *testing.T)    { testUntuned(t, variant{}) }
func TestPlans_NeedTheSettings_14(t *testing.T) { testUntuned(t, variant{old: true}) }

func testPlans(t *testing.T, v variant) {
	t.Parallel()
	p := newPlans(t, v)
	for _, size := range planSizes() {
		p.fill(t, size)
		for _, s := range planStatistics {
			p.believe(t, s.sql)
			for name, statement := range p.statements() {
				for _, mode := range planModes {
					for _, bad := range p.scans(t, statement, mode) {
						t.Errorf("%s, %d rows, statistics %s, %s: %s", name, size, s.name, mode, bad)
					}
				}
			}
		}
	}
}

// testUntuned shows that the check sees a bad plan, and that the settings are what prevents it.
func testUntuned(t *testing.T, v variant) {
	t.Parallel()
	p := newPlans(t, v)
	p.fill(t, 1000)
	seen := 0
	for _, s := range planStatistics {
		p.believe(t, s.sql)
		for _, statement := range p.statements() {
			statement.Tune = "SELECT 1"
			seen += len(p.scans(t, statement, "generic"))
		}
	}
	if seen == 0 {
		t.Error("without the settings no plan scans a table: what are they for?")
	}
}

// plans is a ledger whose plans are looked at.
type plans struct {
	*bench
	owner ledger.Owner
	rows  int
}

func newPlans(t *testing.T, v variant) *plans {
	t.Helper()
	b := newBench(t, v)
	o, err := b.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"message", "archive", "owner", "range_log", "segment", "claim_range"} {
		b.exec(t, "ALTER TABLE ackledger."+table+" SET (autovacuum_enabled = off)")
	}
	return &plans{bench: b, owner: o}
}

// fill adds messages until there are so many.
func (p *plans) fill(t *testing.T, rows int) {
	t.Helper()
	fillMore(t, p.bench, p.rows, rows)
	fillLogs(t, p.bench, p.rows/100, rows/100)
	p.rows = rows
}

// fill writes 200,000 messages.
func fill(t *testing.T, b *bench) {
	t.Helper()
	fillMore(t, b, 0, 200_000)
}

// fillMore writes the messages after the first so many, all settled, and an archive for every tenth.
func fillMore(t *testing.T, b *bench, after, last int) {
	t.Helper()
	b.exec(t, `INSERT INTO ackledger.scope (name) VALUES ('s') ON CONFLICT DO NOTHING`)
	b.exec(t, `INSERT INTO ackledger.message (token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id)
		SELECT 1, now(), now() + interval '1 day', 1, 2, 0, 0, lpad(to_hex(i), 32, '0')::uuid, lpad(to_hex(i), 32, '0')::uuid, 'id'
		FROM generate_series($1::integer + 1, $2::integer) i`, after, last)
	b.exec(t, `INSERT INTO ackledger.archive (token, sent_at, at, expiry, scope, attempts, published, key, fingerprint,
		delivery, id, kind, source, grp)
		SELECT 1, now(), now(), now(), 1, 1, true, lpad(to_hex(i), 32, '0')::uuid, lpad(to_hex(i), 32, '0')::uuid, 'd', 'id',
			'error', '', ''
		FROM generate_series($1::integer + 1, $2::integer, 10) i`, after, last)
}

// fillLogs makes the logs after the first so many, each with ten segments, that do not touch, and with a range.
func fillLogs(t *testing.T, b *bench, after, last int) {
	t.Helper()
	b.exec(t, `INSERT INTO ackledger.range_log (log, version, token, top, scope, epoch, name, prefix)
		SELECT i, 1, 1, 2000, 1, 0, convert_to('log ' || i, 'UTF8'), 'log-' FROM generate_series($1::integer + 1, $2::integer) i`, after, last)
	b.exec(t, `INSERT INTO ackledger.segment (log, first, last, messages, since, until, expiry, kind)
		SELECT i, 100 * j, 100 * j + 50, 50, now(), now(), now() + interval '1 day', 1
		FROM generate_series($1::integer + 1, $2::integer) i, generate_series(1, 10) j`, after, last)
	b.exec(t, `INSERT INTO ackledger.claim_range (log, token, first, last, owner, messages, keep, at)
		SELECT i, 1, 2000, 2100, 1, 100, 1, now() FROM generate_series($1::integer + 1, $2::integer) i`, after, last)
}

func (p *plans) believe(t *testing.T, statistics []string) {
	t.Helper()
	for _, sql := range statistics {
		p.exec(t, sql)
	}
}

// statements are all statements of the ledger on tables that grow, each for one message and for many.
func (p *plans) statements() map[string]postgres.Statement {
	out := make(map[string]postgres.Statement)
	until := time.Now().Add(time.Hour)
	for _, n := range []int{1, 500} {
		entries := kafkaEntries(0, 0, n)
		succeeded, alike := make([]ledger.Settlement, n), make([]ledger.Settlement, n)
		released, failed := make([]ledger.Settlement, n), make([]ledger.Settlement, n)
		for i := range entries {
			ticket := ledger.NewTicket(entries[i].Key.Sum(), 1)
			succeeded[i] = ledger.Settlement{Ticket: ticket, Kind: ledger.Succeed, Result: []byte("r")}
			alike[i] = ledger.Settlement{Ticket: ticket, Kind: ledger.Succeed}
			released[i] = ledger.Settlement{Ticket: ticket, Kind: ledger.Release, After: time.Second}
			failed[i] = ledger.Settlement{Ticket: ticket, Kind: ledger.Fail,
				Dead: &ledger.Archive{Key: entries[i].Key, Delivery: entries[i].Delivery, Keep: time.Hour}}
		}
		for name, s := range map[string]postgres.Statement{
			"claim new":      postgres.FreshStatement(p.owner, entries, until),
			"claim":          postgres.ClaimStatement(p.owner, entries, until),
			"succeed":        postgres.SucceedStatement(p.owner, succeeded, until),
			"succeed alike":  postgres.SucceedStatement(p.owner, alike, until),
			"settle success": postgres.SettleStatement(p.owner, succeeded, until),
			"release":        postgres.SettleStatement(p.owner, released, until),
			"fail":           postgres.SettleStatement(p.owner, failed, until),
		} {
			out[fmt.Sprintf("%s of %d", name, n)] = s
		}
		for name, s := range postgres.OtherStatements(p.owner, entries) {
			out[fmt.Sprintf("%s of %d", name, n)] = s
		}
		for name, s := range postgres.RangeStatements(p.owner, entries) {
			out[fmt.Sprintf("%s of %d", name, n)] = s
		}
	}
	maps.Copy(out, postgres.LogStatements(p.owner, 500, until))
	return out
}

// scans returns what a statement's plan does with a table that grows, other than looking up keys.
func (p *plans) scans(t *testing.T, s postgres.Statement, mode string) (bad []string) {
	t.Helper()
	var text string
	err := pgx.BeginFunc(t.Context(), p.pool, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(t.Context(), s.Tune); err != nil {
			return err
		}
		text, err = explain(t, tx, s, mode)
		return err
	})
	if err != nil {
		t.Fatalf("explain: %v\n%s", err, s.SQL)
	}
	var answer []map[string]any
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	if answer[0]["JIT"] != nil {
		bad = append(bad, "JIT")
	}
	var walk func(node map[string]any)
	walk = func(node map[string]any) {
		if what := scan(node); what != "" {
			bad = append(bad, what)
		}
		children, _ := node["Plans"].([]any)
		for _, c := range children {
			walk(c.(map[string]any))
		}
	}
	walk(answer[0]["Plan"].(map[string]any))
	return bad
}

// keyOf has the tables that grow, each with what an index must be asked by. Of a log's ranges there are few.
var keyOf = map[string][]string{"message": {"key"}, "archive": {"key"}, "range_log": {"log"}, "claim_range": {"log"},
	"segment": {"log", "first"}}

// scan says what one node does that takes longer the larger the table is; empty: nothing.
func scan(node map[string]any) string {
	table, _ := node["Relation Name"].(string)
	keys, grows := keyOf[table]
	if !grows {
		return ""
	}
	kind, cond := node["Node Type"].(string), fmt.Sprint(node["Index Cond"])
	switch kind {
	case "ModifyTable", "Tid Scan":
		return ""
	case "Index Scan", "Index Only Scan":
		if node["Index Name"] == "range_log_name" && strings.Contains(cond, "sha256(name) = ") {
			return ""
		}
		between := strings.Contains(cond, "key >= ") && strings.Contains(cond, "key <")
		asked := func(key string) bool {
			return strings.Contains(cond, key+" = ") || key == "first" && strings.Contains(cond, "first <")
		}
		if node["Index Name"] == table+"_pkey" && (between || !slices.ContainsFunc(keys, func(k string) bool { return !asked(k) })) {
			return ""
		}
	}
	return fmt.Sprintf("%s of %s, condition %s", kind, table, cond)
}

func explain(t *testing.T, tx pgx.Tx, s postgres.Statement, mode string) (text string, err error) {
	t.Helper()
	query, args := "EXPLAIN (FORMAT JSON) "+s.SQL, append([]any(nil), s.Args...)
	switch mode {
	case "custom":
		if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = force_custom_plan"); err != nil {
			return "", err
		}
		args = append([]any{pgx.QueryExecModeExec}, args...)
	case "simple":
		args = append([]any{pgx.QueryExecModeSimpleProtocol}, args...)
	default: // a generic plan knows nothing of the arguments, so any will do
		nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(s.Args)), ", ")
		if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = force_generic_plan", pgx.QueryExecModeSimpleProtocol); err != nil {
			return "", err
		}
		if _, err := tx.Exec(t.Context(), "PREPARE p AS "+s.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			return "", err
		}
		query, args = "EXPLAIN (FORMAT JSON) EXECUTE p("+nulls+")", []any{pgx.QueryExecModeSimpleProtocol}
	}
	if err := tx.QueryRow(t.Context(), query, args...).Scan(&text); err != nil {
		return "", err
	}
	if mode == "generic" {
		_, err = tx.Exec(t.Context(), "DEALLOCATE p", pgx.QueryExecModeSimpleProtocol)
	}
	return text, err
}
