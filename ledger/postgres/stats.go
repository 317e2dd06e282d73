package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
)

const (
	sqlSeen = `SELECT coalesce(seen, ''), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
coalesce((extract(epoch FROM seen_at) * 1000000)::bigint, 0) FROM {s}.maintenance`

	sqlOwners = `SELECT count(*) FILTER (WHERE fate = 1), count(*) FILTER (WHERE fate = 1 AND lease_end < clock_timestamp()),
count(*) FILTER (WHERE fate = 2), count(*) FILTER (WHERE fate = 3) FROM {s}.owner`

	sqlTables = `SELECT c.relname::text, c.reltuples::bigint, pg_table_size(c.oid), pg_indexes_size(c.oid)
FROM pg_catalog.pg_class c WHERE c.relnamespace = {text}::regnamespace AND c.relkind = 'r' ORDER BY 1`
)

// Stats implements [ledger.Inspector]. It reads one row of counts, the small tables of owners and deliveries, and what the catalogs
// say: no table that grows with the messages. What it asks may have to wait all the same, as for VACUUM FULL: it has one
// connection of its own, made for the time of a call, for which calls at once wait until their deadlines (10 s without one).
func (l *Ledger) Stats(ctx context.Context) (ledger.Stats, error) {
	var s ledger.Stats
	err := askOn(ctx, l.stats, func(ctx context.Context, conn *pgxpool.Conn) error {
		var seen []byte
		var now, at int64
		if err := conn.QueryRow(ctx, l.sql(sqlSeen)).Scan(&seen, &now, &at); err != nil {
			return err
		}
		if at != 0 {
			p, err := maintenance.DecodePass(seen)
			if err != nil {
				return err
			}
			p.At = time.UnixMicro(at).UTC()
			s = p.Stats(time.UnixMicro(now))
		}
		o := &s.Owners
		if err := conn.QueryRow(ctx, l.sql(sqlOwners)).Scan(&o.Live, &o.Overdue, &o.Left, &o.Dead); err != nil {
			return err
		}
		if err := l.waits.look(ctx, conn, l.sql(sqlLockWaits), &s); err != nil {
			return err
		}
		var err error
		if s.Deliveries, err = l.deliveries(ctx, conn); err != nil {
			return err
		}
		rows, err := conn.Query(ctx, l.sql(sqlTables))
		if err != nil {
			return err
		}
		s.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t ledger.TableStats, err error) {
			err = row.Scan(&t.Name, &t.Rows, &t.Bytes, &t.IndexBytes)
			return t, err
		})
		return err
	})
	if err != nil {
		return ledger.Stats{}, fmt.Errorf("postgres: stats: %w", err)
	}
	s.Answered = l.counts.Answered()
	return s, nil
}

// Pools implements [ledger.PoolInspector]: the pool of the ledger's own calls, and the caller's, which InTx uses. pgxpool counts
// (pgxpool.Stat).
func (l *Ledger) Pools() []ledger.PoolStats {
	return []ledger.PoolStats{poolStats("ledger", l.own), poolStats("intx", l.user)}
}

func poolStats(name string, pool *pgxpool.Pool) ledger.PoolStats {
	s := pool.Stat()
	return ledger.PoolStats{
		Name: name, InUse: int64(s.AcquiredConns()), Max: int64(s.MaxConns()),
		Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(), GaveUp: s.CanceledAcquireCount(),
	}
}
