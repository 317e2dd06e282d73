package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/ackledger/ackledger/ledger/storage"
)

// A file keeps its id, and two files have two.
func TestLedgerID(t *testing.T) {
	t.Parallel()
	dir, seen := t.TempDir(), map[string]string{}
	for _, name := range []string{"one", "other", "one"} {
		l, _ := openAt(t, filepath.Join(dir, name), nil)
		id, err := l.ID(t.Context())
		if err != nil || !storage.IsLedgerID(id) {
			t.Fatalf("id %q, %v", id, err)
		}
		if was := seen[name]; was != "" && was != id {
			t.Errorf("%s had the id %q, and has %q", name, was, id)
		}
		seen[name] = id
	}
	if seen["one"] == seen["other"] {
		t.Errorf("two files have the id %q", seen["one"])
	}
}
