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

// Kept is the ledger's file for messages of a real broker, in the current folder.
const Kept = "ledger.db"

// OpenLedger opens the ledger in the file at path. If path is empty, that is Kept if the broker is a real one: what failed
// is in the ledger alone, once it is acknowledged. Else it is in a temporary folder.
func OpenLedger(ctx context.Context, path string, real bool) (l *Ledger, err error) {
	if path == "" && real {
		path = Kept
	}
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
