package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

// sqlLockWaits counts the sessions that wait for a lock and hold one on a table of ours: who waits for a row waits for
// the transaction that holds it.
// In sum it says how long they have waited since $1, on the database's clock: microseconds since 1970. For a moment after a
// wait has begun PostgreSQL does not say since when it is (pg_locks.waitstart).
const sqlLockWaits = `
SELECT count(DISTINCT w.pid), sum(greatest(n.at - greatest(coalesce((extract(epoch FROM w.waitstart) * 1000000)::bigint, n.at), $1::bigint), 0))::bigint, n.at
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at OFFSET 0) n
LEFT JOIN pg_catalog.pg_locks w ON NOT w.granted AND EXISTS (
	SELECT FROM pg_catalog.pg_locks h JOIN pg_catalog.pg_class c ON c.oid = h.relation
	WHERE h.pid = w.pid AND c.relnamespace = {text}::regnamespace
		AND h.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
GROUP BY n.at`

// lockWaits adds up what calls of Stats see of sessions that wait. Each counts a wait from the call before on.
type lockWaits struct {
	mu     sync.Mutex
	seen   int64 // when the last call looked
	waited time.Duration
}

func (w *lockWaits) look(ctx context.Context, conn *pgxpool.Conn, sql string, s *ledger.Stats) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var since, now int64
	if err := conn.QueryRow(ctx, sql, w.seen).Scan(&s.LockWaits, &since, &now); err != nil {
		return err
	}
	w.seen = now
	w.waited += time.Duration(since) * time.Microsecond
	s.LockWaited = w.waited
	return nil
}
