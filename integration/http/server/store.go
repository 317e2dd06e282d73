package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // for the service elsewhere

	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// effect is a row of plan.Table, or of plan.OutsideTable.
type effect struct {
	id, path, answer, process string
	token                     int64
}

// call is a row of plan.CallTable.
type call struct {
	child, path, step, id string
	token                 int64
}

// store is a ledger, and the ways to have an effect.
type store struct {
	ledger  ledger.Ledger
	inTx    func(ctx context.Context, f func(put func(*effect) error) error) error
	outside func(ctx context.Context, child string, e *effect) error // e becomes what was done first under this key
	note    func(ctx context.Context, event string, c *call) error
	close   func() error
}

func openStore(ctx context.Context, o *plan.Orders, log *zap.Logger) (*store, error) {
	switch o.Store {
	case "postgres":
		return openPostgres(ctx, o.Database, log)
	case "sqlite":
		return openSQLite(ctx, o.Database, log)
	}
	return nil, fmt.Errorf("store %q: must be one of %q", o.Store, plan.Stores)
}

func openPostgres(ctx context.Context, url string, log *zap.Logger) (*store, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	l, err := postgres.New(ctx, pool, &postgres.Config{Logger: log})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &store{
		ledger: l,
		inTx: func(ctx context.Context, f func(put func(*effect) error) error) error {
			return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				return f(func(e *effect) error {
					_, err := tx.Exec(ctx, `INSERT INTO effect VALUES ($1, $2, $3, $4, $5)`, e.id, e.path, e.answer, e.process, e.token)
					return err
				})
			})
		},
		outside: func(ctx context.Context, child string, e *effect) error {
			if _, err := pool.Exec(ctx, `INSERT INTO outside VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, child, e.id, e.path, e.answer); err != nil {
				return err
			}
			return pool.QueryRow(ctx, `SELECT id, answer FROM outside WHERE child = $1`, child).Scan(&e.id, &e.answer)
		},
		note: func(ctx context.Context, event string, c *call) error {
			_, err := pool.Exec(ctx, `INSERT INTO outside_call VALUES ($1, $2, $3, $4, $5, $6)`, event, c.child, c.path, c.step, c.id, c.token)
			return err
		},
		close: func() error { l.Close(); pool.Close(); return nil },
	}, nil
}

func openSQLite(ctx context.Context, path string, log *zap.Logger) (*store, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(30000)")
	if err != nil {
		return nil, err
	}
	l, err := sqlite.Open(ctx, path, &sqlite.Config{Logger: log})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &store{
		ledger: l,
		inTx: func(ctx context.Context, f func(put func(*effect) error) error) error {
			return sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				return f(func(e *effect) error {
					_, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES (?, ?, ?, ?, ?)`, e.id, e.path, e.answer, e.process, e.token)
					return err
				})
			})
		},
		outside: func(ctx context.Context, child string, e *effect) error {
			if _, err := db.ExecContext(ctx, `INSERT INTO outside VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, child, e.id, e.path, e.answer); err != nil {
				return err
			}
			return db.QueryRowContext(ctx, `SELECT id, answer FROM outside WHERE child = ?`, child).Scan(&e.id, &e.answer)
		},
		note: func(ctx context.Context, event string, c *call) error {
			_, err := db.ExecContext(ctx, `INSERT INTO outside_call VALUES (?, ?, ?, ?, ?, ?)`, event, c.child, c.path, c.step, c.id, c.token)
			return err
		},
		close: func() error { return errors.Join(l.Close(), db.Close()) },
	}, nil
}
