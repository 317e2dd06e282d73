package postgres_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

const manyDead = 100_000

// fillDead archives so many failed messages of two scopes, of which one in a thousand is a mismatch, and as many audit rows.
func fillDead(t *testing.T, b *bench) {
	t.Helper()
	for _, table := range []string{"message", "archive", "past", "audit"} {
		b.exec(t, "ALTER TABLE ackledger."+table+" SET (autovacuum_enabled = off)")
	}
	b.exec(t, `INSERT INTO ackledger.scope (name) VALUES ('s1'), ('s2')`)
	b.exec(t, `INSERT INTO ackledger.message (token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id, failed_delivery)
		SELECT 1, now(), now() + interval '1 day', 1 + i % 2, 3, 0, 0, md5(i::text)::uuid, md5(i::text)::uuid,
			('id ' || i)::bytea, 'd'
		FROM generate_series(1, $1::integer) i`, manyDead)
	b.exec(t, `INSERT INTO ackledger.archive (token, sent_at, at, expiry, scope, attempts, published, key, fingerprint,
		delivery, id, kind, source, grp, headers, body)
		SELECT 1, now(), now() - (i || ' ms')::interval, now() + interval '1 day', 1 + i % 2, 1, true, md5(i::text)::uuid,
			md5(i::text)::uuid, 'd', ('id ' || i)::bytea, CASE WHEN i % 1000 = 0 THEN 'mismatch' ELSE 'error' END::bytea, '', '',
			'[]', ('body ' || repeat(i::text, 30))::bytea
		FROM generate_series(1, $1::integer) i`, manyDead)
	b.exec(t, `INSERT INTO ackledger.past (at, expiry, until, token, scope, state, attempts, crashes, key, id, result)
		SELECT at, expiry, expiry, token, scope, state, 0, 0, key, id, 'result' FROM ackledger.message`)
	b.exec(t, `INSERT INTO ackledger.audit (actor, action, key) SELECT 'a', 'replay', md5(i::text)::uuid
		FROM generate_series(1, $1::integer) i`, manyDead)
}

// TestOperatePlans: what operators ask goes by an index, whatever the planner believes, and however it is asked: the first
// page of 100,000 dead letters reads no more than what it shows.
func TestOperatePlans(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testOperatePlans(t, newBench(t, variant{old: old}))
		})
	}
}

func testOperatePlans(t *testing.T, b *bench) {
	fillDead(t, b)
	until := time.Now().Add(time.Hour).UnixMicro()
	var keys []ledger.Key
	b.each(t, "SELECT key FROM ackledger.message LIMIT 200", func(sum [16]byte) {
		keys = append(keys, ledger.KeyOfSum("s1", []byte("id"), sum))
	})
	statements := postgres.OperateStatements(b.Ledger, keys, until)
	for name, f := range map[string]ledger.Filter{
		"of all": {}, "of a scope": {Scope: "s1"}, "of a kind": {Kinds: []ledger.FailureKind{ledger.KindMismatch}},
		"of kinds":           {Kinds: []ledger.FailureKind{ledger.KindMismatch, ledger.KindError, ledger.KindPanic}},
		"of a scope's kinds": {Scope: "s1", Kinds: []ledger.FailureKind{ledger.KindError}},
		"of ids":             {IDs: [][]byte{[]byte("id 5"), []byte("id 77"), []byte("no")}},
	} {
		scope := int32(0)
		if f.Scope != "" {
			scope = 1
		}
		statements["dead letters "+name] = postgres.DeadStatement(b.Ledger, f, scope, until)
		f.Newest = true
		statements["the last dead letters "+name] = postgres.DeadStatement(b.Ledger, f, scope, until)
	}
	for _, s := range planStatistics {
		if s.name == "right" {
			s.sql = append(s.sql, "VACUUM ANALYZE ackledger.audit")
		}
		for _, sql := range s.sql {
			b.exec(t, sql)
		}
		for name, statement := range statements {
			for _, mode := range []string{"custom", "generic"} {
				scans, buffers := b.costs(t, statement, mode)
				if len(scans) > 0 || buffers > 15_000 {
					t.Errorf("%s, statistics %s, %s: %.0f buffers; %s", name, s.name, mode, buffers, strings.Join(scans, "; "))
				}
			}
		}
	}
}

// each reads one column of keys.
func (b *bench) each(t *testing.T, query string, fn func([16]byte)) {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	var sum [16]byte
	if _, err := pgx.ForEachRow(rows, []any{&sum}, func() error { fn(sum); return nil }); err != nil {
		t.Fatal(err)
	}
}

// costs carries a statement out, rolls it back, and returns which tables it read from end to end, and how many buffers it
// touched.
func (b *bench) costs(t *testing.T, s postgres.Statement, mode string) (scans []string, buffers float64) {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), s.Tune); err != nil {
		t.Fatal(err)
	}
	query, args := s.SQL, s.Args
	if mode == "generic" {
		if _, err := tx.Exec(t.Context(), "PREPARE p AS "+s.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%v\n%s", err, s.SQL)
		}
		defer func() { _, _ = tx.Conn().Exec(t.Context(), "DEALLOCATE ALL", pgx.QueryExecModeSimpleProtocol) }()
		var places []string
		for i := range s.Args {
			places = append(places, fmt.Sprintf("$%d", i+1))
		}
		query = "EXECUTE p(" + strings.Join(places, ", ") + ")"
	}
	var text string
	err = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+query,
		append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&text)
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	var answer []struct{ Plan map[string]any }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	var walk func(map[string]any)
	walk = func(node map[string]any) {
		table, _ := node["Relation Name"].(string)
		if kind := node["Node Type"]; (kind == "Seq Scan" || kind == "Bitmap Heap Scan" || kind == "Index Scan" && node["Index Cond"] == nil) &&
			(table == "message" || table == "archive" || table == "audit" && node["Node Type"] != "Index Scan") {
			scans = append(scans, fmt.Sprintf("%v of %s", kind, table))
		}
		children, _ := node["Plans"].([]any)
		for _, c := range children {
			walk(c.(map[string]any))
		}
	}
	walk(answer[0].Plan)
	return scans, answer[0].Plan["Shared Hit Blocks"].(float64) + answer[0].Plan["Shared Read Blocks"].(float64)
}

// TestManyDeadLetters: 100,000 dead letters are listed in bounded memory, bodies included.
func TestManyDeadLetters(t *testing.T) { // not in parallel with others: it reads the process's heap
	b := newBench(t, variant{})
	fillDead(t, b)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	n, most := 0, uint64(0)
	var last time.Time
	for d, err := range b.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if d.At.Before(last) || d.Status.State != ledger.Failed || !strings.HasPrefix(string(d.Body), "body ") {
			t.Fatalf("%d: %+v after %s", n, d, last)
		}
		last = d.At
		if n++; n%10_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}
	if n != manyDead {
		t.Errorf("%d dead letters, want %d", n, manyDead)
	}
	if grew := int64(most) - int64(before.HeapAlloc); grew > 48<<20 {
		t.Errorf("the heap grew by %d MiB", grew>>20)
	}
}
