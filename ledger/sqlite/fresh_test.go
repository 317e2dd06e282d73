package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// ledgerFiles are the suffixes of a closed ledger's files.
var ledgerFiles = []string{"", "-owners"}

// newLedger is the files of a ledger that was made by Open and closed again. A case begins with a copy of them, as of a
// restored backup: making the tables anew takes longer than most cases.
var newLedger = sync.OnceValues(func() (files [][]byte, err error) {
	dir, err := os.MkdirTemp("", "ackledger-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "ledger.db")
	l, err := Open(context.Background(), path, nil)
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != len(ledgerFiles) {
		return nil, fmt.Errorf("a closed ledger has the files %v (%w), want %d", names, err, len(ledgerFiles))
	}
	for _, suffix := range ledgerFiles {
		text, err := os.ReadFile(path + suffix)
		if err != nil {
			return nil, err
		}
		files = append(files, text)
	}
	return files, nil
})

// Fresh is the path of a ledger for one case.
func Fresh(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger ?#%.db") // a file name may be anything
	files, err := newLedger()
	if err != nil {
		t.Fatal(err)
	}
	for i, suffix := range ledgerFiles {
		if err := os.WriteFile(path+suffix, files[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
