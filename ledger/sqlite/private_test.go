package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// The ledger's files were made for everybody to read, whole bodies in them. All of them are the owner's alone, those that SQLite
// makes beside them too; a file that is there keeps its mode.
func TestPitfall136_FilesForEverybody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	l, _ := openAt(t, path, nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Claim(t.Context(), []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte("a")}, Delivery: []byte("d"), Window: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %04o", f.Name(), mode)
		}
	}
	if len(files) != 6 {
		t.Errorf("%d files, want two ledgers' three each: %v", len(files), files)
	}

	shared := filepath.Join(t.TempDir(), "shared.db")
	for _, name := range []string{shared, shared + "-owners"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o660); err != nil {
			t.Fatal(err)
		}
	}
	other, err := sqlite.Open(t.Context(), shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(shared); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v: a file that was there has mode %v", err, info.Mode())
	}
}

// A link to where the file is to be made is followed, as SQLite does: what is made there is its owner's alone as well.
func TestFileBehindALinkIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for link, to := range map[string]string{"ledger.db": "next.db", "next.db": filepath.Join(dir, "there.db")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := sqlite.Open(t.Context(), filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for _, name := range []string{"there.db", "there.db-wal", "ledger.db-owners"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
