package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/ackledger/ackledger/ledger/sqlite"
)

// Ledger is a SQLite ledger in a file of the caller's, or in a temporary folder.
type Ledger struct {
	*sqlite.Ledger
	Path string
	dir  string // to remove; empty: the caller's
}

// OpenLedger opens the ledger in the file at path, in a temporary folder if path is empty.
func OpenLedger(ctx context.Context, path string) (l *Ledger, err error) {
	l = &Ledger{Path: path}
	if path == "" {
		if l.dir, err = os.MkdirTemp("", "ackledger-example-*"); err != nil {
			return nil, err
		}
		l.Path = filepath.Join(l.dir, "ledger.db")
	}
	if l.Ledger, err = sqlite.Open(ctx, l.Path, nil); err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	return l, nil
}

// Close closes the ledger and removes the temporary folder.
func (l *Ledger) Close() error {
	err := l.Ledger.Close()
	if l.dir != "" {
		err = errors.Join(err, os.RemoveAll(l.dir))
	}
	return err
}
