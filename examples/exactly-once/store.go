package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the driver for the application's own reads

	"github.com/ackledger/ackledger/examples/internal/local"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

const createTable = `CREATE TABLE IF NOT EXISTS example_charges (order_id TEXT NOT NULL, cents INTEGER NOT NULL)`

// store is the application's database, which holds the ledger too: that is what one commit for both needs.
type store interface {
	Ledger() ledger.Ledger
	// Charge inserts one row and calls then, in one transaction with the message's success.
	Charge(ctx context.Context, o order, then func() error) error
	Count(ctx context.Context, id string) (int, error)
	Close()
}

func openStore(ctx context.Context, dsn string, real bool) (store, error) {
	if dsn != "" {
		return openPostgres(ctx, dsn)
	}
	l, err := local.OpenLedger(ctx, "", real)
	if err != nil {
		return nil, err
	}
	s := &sqliteStore{ledger: l}
	if s.db, err = sql.Open("sqlite", "file:"+l.Path+"?_pragma=busy_timeout(10000)"); err == nil {
		_, err = s.db.ExecContext(ctx, createTable)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

type sqliteStore struct {
	ledger *local.Ledger
	db     *sql.DB // of the application, on the same file
}

func (s *sqliteStore) Ledger() ledger.Ledger { return s.ledger }

func (s *sqliteStore) Charge(ctx context.Context, o order, then func() error) error {
	return sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO example_charges VALUES (?, ?)", o.ID, o.Cents); err != nil {
			return err
		}
		return then()
	})
}

func (s *sqliteStore) Count(ctx context.Context, id string) (n int, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM example_charges WHERE order_id = ?", id).Scan(&n)
	return n, err
}

func (s *sqliteStore) Close() {
	if s.db != nil {
		_ = s.db.Close()
	}
	_ = s.ledger.Close()
}

type postgresStore struct {
	pool   *pgxpool.Pool
	ledger *postgres.Ledger
}

func openPostgres(ctx context.Context, dsn string) (store, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	s := &postgresStore{pool: pool}
	if err = postgres.Migrate(ctx, pool.Config().ConnConfig, ""); err == nil {
		_, err = pool.Exec(ctx, createTable)
	}
	if err == nil {
		s.ledger, err = postgres.New(ctx, pool, nil)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

func (s *postgresStore) Ledger() ledger.Ledger { return s.ledger }

func (s *postgresStore) Charge(ctx context.Context, o order, then func() error) error {
	return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO example_charges VALUES ($1, $2)", o.ID, o.Cents); err != nil {
			return err
		}
		return then()
	})
}

func (s *postgresStore) Count(ctx context.Context, id string) (n int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM example_charges WHERE order_id = $1", id).Scan(&n)
	return n, err
}

func (s *postgresStore) Close() {
	s.ledger.Close()
	s.pool.Close()
}
