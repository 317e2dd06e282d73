package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // for effects beside the ledger's transactions

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// store is a ledger, and the ways to have an effect: with the message's success, by itself, and by an outside call.
type store struct {
	ledger ledger.Ledger
	effect func(ctx context.Context, batch ...*consumer.Message) error
	plain  func(ctx context.Context, m *consumer.Message) error
	note   func(ctx context.Context, event string, c *call) error
	close  func() error
}

func openStore(ctx context.Context, o *plan.Orders, log *zap.Logger) (*store, error) {
	switch o.Store {
	case "postgres":
		return openPostgres(ctx, o, log)
	case "sqlite":
		return openSQLite(ctx, o, log)
	}
	return nil, fmt.Errorf("store %q: must be postgres or sqlite", o.Store)
}

func openPostgres(ctx context.Context, o *plan.Orders, log *zap.Logger) (*store, error) {
	pool, err := pgxpool.New(ctx, o.Database)
	if err != nil {
		return nil, err
	}
	l, err := postgres.New(ctx, pool, &postgres.Config{Logger: log})
	if err != nil {
		pool.Close()
		return nil, err
	}
	const insert = `INSERT INTO effect (message, body, grp, part, off, process, token) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	return &store{
		ledger: l,
		effect: func(ctx context.Context, batch ...*consumer.Message) error {
			return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				for _, m := range batch {
					if _, err := tx.Exec(ctx, insert, effectOf(ctx, o, m)...); err != nil {
						return err
					}
				}
				return nil
			})
		},
		plain: func(ctx context.Context, m *consumer.Message) error {
			_, err := pool.Exec(ctx, insert, effectOf(ctx, o, m)...)
			return err
		},
		note: func(ctx context.Context, event string, c *call) error {
			_, err := pool.Exec(ctx, `INSERT INTO outside_call (event, child, body, step, id, process, token) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				event, c.child, c.body, c.step, c.id, c.process, c.token)
			return err
		},
		close: func() error { l.Close(); pool.Close(); return nil },
	}, nil
}

func openSQLite(ctx context.Context, o *plan.Orders, log *zap.Logger) (*store, error) {
	db, err := sql.Open("sqlite", "file:"+o.Database+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	l, err := sqlite.Open(ctx, o.Database, &sqlite.Config{Logger: log})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	const insert = `INSERT INTO effect (message, body, grp, part, off, process, token) VALUES (?, ?, ?, ?, ?, ?, ?)`
	return &store{
		ledger: l,
		effect: func(ctx context.Context, batch ...*consumer.Message) error {
			return sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				for _, m := range batch {
					if _, err := tx.ExecContext(ctx, insert, effectOf(ctx, o, m)...); err != nil {
						return err
					}
				}
				return nil
			})
		},
		plain: func(ctx context.Context, m *consumer.Message) error {
			_, err := db.ExecContext(ctx, insert, effectOf(ctx, o, m)...)
			return err
		},
		note: func(ctx context.Context, event string, c *call) error {
			_, err := db.ExecContext(ctx, `INSERT INTO outside_call (event, child, body, step, id, process, token) VALUES (?, ?, ?, ?, ?, ?, ?)`,
				event, c.child, c.body, c.step, c.id, c.process, c.token)
			return err
		},
		close: func() error { return errors.Join(l.Close(), db.Close()) },
	}, nil
}

// effectOf is the row of an effect. The group of a Kafka record is its key.
func effectOf(ctx context.Context, o *plan.Orders, m *consumer.Message) []any {
	group := m.Group
	if group == "" {
		group = string(m.Key)
	}
	return []any{m.ID, string(m.Body), group, m.Partition, m.Offset, o.Name, int64(consumer.Token(consumer.For(ctx, m)))}
}
