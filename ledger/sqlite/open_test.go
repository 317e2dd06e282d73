package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger/sqlite"
)

// A process that recovers or closes a file has it for itself for a moment. Whoever opened a ledger in that moment was told
// "busy" at once, and its process ended.
func TestConnectionsWaitForAFileThatIsBusy(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "-owners"} {
		t.Run("ledger"+file, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			first, err := sqlite.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			release := holdAlone(t, path+file)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			time.AfterFunc(300*time.Millisecond, release) // the moment: several times what SQLite waits by itself
			if err := sqlite.ConnectTo(ctx, path); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// holdAlone takes the file so that nobody else can even read it, until release.
func holdAlone(t *testing.T, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "CREATE TABLE held (x)", "ROLLBACK"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return func() { _ = conn.Close(); _ = db.Close() }
}
