package sqlite

import (
	"database/sql"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// TestPlansOfDeadLetters: a page of dead letters is read along an index, in its order, whatever selects them: nothing is
// scanned, and nothing sorted.
func TestPlansOfDeadLetters(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), nil)
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
		p := deadPages{l: l, f: &f, until: now.UnixMicro(), at: math.MinInt64}
		text, args := p.sql()
		steps := 0
		err := query(t.Context(), l.read, "EXPLAIN QUERY PLAN "+text, args, func(rows *sql.Rows) error {
			var id, parent, unused int
			var step string
			err := rows.Scan(&id, &parent, &unused, &step)
			if steps++; strings.HasPrefix(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s: %s", name, step)
			}
			return err
		})
		if err != nil || steps == 0 {
			t.Errorf("%s: %d steps, %v", name, steps, err)
		}
	}
}
