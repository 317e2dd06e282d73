package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	// migrateWait is how long Migrate waits for another Migrate on the same schema.
	migrateWait = 5 * time.Minute
	// migrateEvery is how often it looks whether its turn has come.
	migrateEvery = 200 * time.Millisecond
	// unlockLimit bounds the giving back of the turn, which the end of the session does as well.
	unlockLimit = 5 * time.Second
)

// The two locks of a schema: of its making, until that transaction's end, and of its migrations, until the session's.
const (
	sqlTryMake    = `SELECT pg_catalog.pg_try_advisory_xact_lock($1)`
	sqlTryMigrate = `SELECT pg_catalog.pg_try_advisory_lock($1)`
	sqlUnlock     = `SELECT pg_catalog.pg_advisory_unlock($1)`

	// sqlMigrates names the session that has a lock. What another role's session does shows to few.
	sqlMigrates = `
SELECT format(
	'process %1$s, user %2$s, from %3$s, application %4$s, %5$s since %6$s; if it hangs: SELECT pg_terminate_backend(%1$s)',
	a.pid, coalesce(a.usename::text, '?'), coalesce(host(a.client_addr), '?'), quote_literal(coalesce(a.application_name, '')),
	coalesce(a.state, '?'), coalesce(date_trunc('second', a.state_change)::text, '?'))
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
	AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
	AND (l.classid::bigint << 32) | l.objid::bigint = $1
LIMIT 1`
)

// turn is the right to migrate a schema. It is a lock.SessionLocker of goose.
type turn struct {
	id   int64
	wait time.Duration
}

// SessionLock waits until no other process migrates, for so long and until ctx ends.
func (t turn) SessionLock(ctx context.Context, conn *sql.Conn) error {
	return t.take(ctx, conn, sqlTryMigrate)
}

// SessionUnlock lets the next one migrate. goose calls it with a context that does not end.
func (t turn) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, unlockLimit)
	defer cancel()
	var had bool
	err := conn.QueryRowContext(ctx, sqlUnlock, t.id).Scan(&had)
	if err == nil && !had {
		err = errors.New("the session did not have the lock")
	}
	if err != nil {
		return fmt.Errorf("giving back the turn to migrate: %w", err)
	}
	return nil
}

// querier is a transaction or a connection.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// take tries until it has the lock. Its error says which session has it.
func (t turn) take(ctx context.Context, q querier, try string) error {
	limit := time.NewTimer(t.wait)
	defer limit.Stop()
	tick := time.NewTicker(migrateEvery)
	defer tick.Stop()
	began, holder := time.Now(), ""
	waited := func(why error) error {
		return fmt.Errorf("waited %s for another migration of the schema: %w; its session: %s",
			time.Since(began).Round(time.Millisecond), why, holder)
	}
	for {
		var got bool
		err := q.QueryRowContext(ctx, try, t.id).Scan(&got)
		if err == nil && !got {
			err = q.QueryRowContext(ctx, sqlMigrates, t.id).Scan(&holder)
		}
		switch {
		case errors.Is(err, sql.ErrNoRows): // it has just ended
			holder = "it has ended"
		case err != nil && holder != "" && ctx.Err() != nil:
			return waited(ctx.Err())
		case err != nil || got:
			return err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return waited(errTurnWait)
		case <-ctx.Done():
			return waited(ctx.Err())
		}
	}
}

// errTurnWait says that the limit of a migration's patience is over.
var errTurnWait = errors.New("it did not end in time")
