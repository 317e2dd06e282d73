package sqlite

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// TestPlansOfDeadLetters: a page of dead letters is read along an index, in its order, whatever selects them: nothing is
// scanned, and nothing sorted.
func TestPlansOfDeadLetters(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), Fresh(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	now := time.Now()
	for name, f := range map[string]ledger.Filter{
		"all":            {},
		"a scope":        {Scope: "s"},
		"a kind":         {Kinds: []ledger.FailureKind{ledger.KindError}},
		"kinds":          {Kinds: []ledger.FailureKind{ledger.KindError, ledger.KindPanic}},
		"a kind's scope": {Scope: "s", Kinds: []ledger.FailureKind{ledger.KindError}},
		"a time":         {From: now.Add(-time.Hour), To: now},
		"a scope's time": {Scope: "s", From: now.Add(-time.Hour), To: now},
	} {
		for _, behind := range []driver.Mark{"", place{now.UnixMicro(), 7}.mark()} {
			for _, f.Newest = range []bool{false, true} {
				text, args := lettersSQL(&f, behind, now.UnixMicro(), 500)
				steps := 0
				err := query(t.Context(), l.store.read, "EXPLAIN QUERY PLAN "+text, args, func(rows scanner) error {
					var id, parent, unused int
					var step string
					err := rows.Scan(&id, &parent, &unused, &step)
					if steps++; strings.HasPrefix(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
						t.Errorf("%s, newest %t, behind %q: %s", name, f.Newest, behind, step)
					}
					return err
				})
				if err != nil || steps == 0 {
					t.Errorf("%s: %d steps, %v", name, steps, err)
				}
			}
		}
	}
}

// TestArchivedBytesReadNoBodies: how much is archived is known in a fraction of the time in which the bodies are read.
func TestArchivedBytesReadNoBodies(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), Fresh(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = l.store.main.do(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO ackledger_scope (name) VALUES (CAST('s' AS BLOB))"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8)
			INSERT INTO ackledger_archive (key, delivery, scope, fingerprint, token, generation, kind, source, grp, attempts, published,
				at, expiry, body)
			SELECT randomblob(16), randomblob(4), (SELECT id FROM ackledger_scope), zeroblob(16), i, 0, 'error', zeroblob(1), zeroblob(1), 1, 0,
				i, i, zeroblob(8 << 20) FROM n`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fastest := func(ask func() error) time.Duration {
		best := time.Hour
		for range 3 {
			began := time.Now()
			if err := ask(); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	weigh := fastest(func() error {
		n, err := l.ArchivedBytes(t.Context(), "s", math.MaxInt64)
		if want := int64(8 * (8<<20 + ledger.ArchiveRowBytes + 1)); n != want {
			t.Errorf("%d bytes, want %d", n, want)
		}
		return err
	})
	read := fastest(func() error {
		const bodies = "SELECT sum(length(substr(body, 2))) FROM ackledger_archive"
		return query(t.Context(), l.store.read, bodies, nil, func(rows scanner) error { var n int64; return rows.Scan(&n) })
	})
	if weigh > read/4 {
		t.Errorf("%s, and %s to read the bodies", weigh, read)
	}
}
