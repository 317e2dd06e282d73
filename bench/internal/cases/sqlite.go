package cases

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

const fileGroup = "SQLite, one insert a transaction"

// fileCases compare an InTx of SQLite with what people write by hand. A file has one writer, so messages come one after the other.
func fileCases() []suite.Case {
	n := suite.Size{Full: 10_000, Quick: 2000}
	return []suite.Case{
		{Group: fileGroup, Name: "inbox by hand", N: n, Run: fileByHand,
			Note: "BEGIN IMMEDIATE, INSERT of the key ON CONFLICT DO NOTHING, INSERT of the effect, COMMIT; no lease, no fence, no retries, no dead letters"},
		{Group: fileGroup, Name: "ours, InTx", Note: "claims of 500 messages with rows, then the INSERT of the effect in an InTx of each", N: n, Run: fileInTx(false)},
		{Group: fileGroup, Name: "ours, InTx in ranges", Note: "the same in ranges", N: n, Run: fileInTx(true)},
	}
}

var fileBody = make([]byte, 200)

func fileByHand(ctx context.Context, r *suite.Run) (suite.Result, error) {
	dir, err := os.MkdirTemp("", "ackledger-bench-*")
	if err != nil {
		return nil, err
	}
	r.Cleanup(func() error { return os.RemoveAll(dir) })
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "inbox.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	r.Cleanup(db.Close)
	if _, err := db.ExecContext(ctx, "CREATE TABLE inbox (id TEXT PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP); CREATE TABLE effects (id TEXT NOT NULL, body BLOB NOT NULL)"); err != nil {
		return nil, err
	}
	begin := time.Now()
	for i := range r.N {
		if err := fileInbox(ctx, db, fmt.Sprintf("orders-%d-%d", i%partitions, i/partitions)); err != nil {
			return nil, err
		}
	}
	return suite.Throughput(r.N, time.Since(begin)), nil
}

func fileInbox(ctx context.Context, db *sql.DB, id string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	res, err := tx.ExecContext(ctx, insertInbox, id)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 { // it was there
		return err
	}
	if _, err := tx.ExecContext(ctx, insertEffect, id, fileBody); err != nil {
		return err
	}
	return tx.Commit()
}

func fileInTx(ranged bool) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		l, path, err := freshSQLite(ctx, r)
		if err != nil {
			return nil, err
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return nil, err
		}
		r.Cleanup(db.Close)
		if _, err := db.ExecContext(ctx, "CREATE TABLE effects (id TEXT NOT NULL, body BLOB NOT NULL)"); err != nil {
			return nil, err
		}
		return joined(ctx, l, func(o ledger.Owner) (suite.Result, error) {
			begin := time.Now()
			for from := 0; from < r.N; from += 500 {
				entries := newEntries(0, from, min(500, r.N-from))
				for i := range entries {
					entries[i].Ranged, entries[i].Key.Pos.Prev = ranged, entries[i].Key.Pos.Offset-1
				}
				claims, err := o.Claim(ctx, entries)
				if err != nil {
					return nil, err
				}
				for i, c := range claims {
					err := sqlite.InTx(ledger.WithAttempt(ctx, ledger.NewAttempt(o, c.Ticket)), func(ctx context.Context, tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, insertEffect, string(entries[i].Key.ID), fileBody)
						return err
					})
					if err != nil {
						return nil, err
					}
				}
			}
			took := time.Since(begin)
			var n int
			err := db.QueryRowContext(ctx, "SELECT count(*) FROM effects").Scan(&n)
			return suite.Throughput(r.N, took), wantRows(n, r.N, err)
		})
	}
}
