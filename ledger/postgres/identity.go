package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.Identified = (*Ledger)(nil)

// sqlIdentity reads the ledger's id from a schema of whatever version: before 10 there is none.
const sqlIdentity = `SELECT coalesce(to_jsonb(m)->>'ledger', '') FROM {s}.meta m`

// ID implements [ledger.Identified]. The migration to version 10 makes the id.
func (l *Ledger) ID(ctx context.Context) (id string, err error) {
	err = askOn(ctx, l.beats, func(ctx context.Context, conn *pgxpool.Conn) error {
		return noRowIsUnusable(conn.QueryRow(ctx, l.sql(sqlIdentity)).Scan(&id))
	})
	return id, named("read the ledger's id", err)
}
