package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

var (
	_ ledger.Pooled        = (*Ledger)(nil)
	_ ledger.PoolInspector = (*Ledger)(nil)
)

// Ledger implements [ledger.Ledger] on PostgreSQL. Make it with [New]; it is safe for concurrent use.
type Ledger struct {
	cfg   Config
	sql   statements
	user  *pgxpool.Pool // the caller's: InTx
	own   *pgxpool.Pool // claims, settles, reads
	beats *pgxpool.Pool // one connection, so that no flood of claims can delay a beat
	stats *pgxpool.Pool // one connection, and only while it is used, so that Stats that wait keep nobody else's
	log   *zap.Logger
	is    versions

	openDB sync.Once
	db     *sql.DB // InSQLTx; opened on first use

	scopes   scopes
	counts   ranges.Counts
	waits    lockWaits
	mayAudit atomic.Bool // this role may read the audit
}

// New makes a ledger beside the caller's pool, which serves InTx. Ledger calls use connections of their own, made with
// the same settings (pool.Config), so pool may be exhausted without harm. ctx is used only while New runs; nothing is
// asked of the database yet: [Ledger.Join] does, and says what is wrong with it.
//
// Close the ledger before the pool.
func New(ctx context.Context, pool *pgxpool.Pool, cfg *Config) (*Ledger, error) {
	if pool == nil {
		return nil, &ledger.InvalidError{Field: "pool", Bound: "a pool", Value: "nil"}
	}
	c := cfg.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	l := &Ledger{cfg: c, sql: newStatements(c.Schema), user: pool, log: c.Logger, is: program}
	var err error
	if l.own, err = ownPool(ctx, pool, c.MaxConns); err != nil {
		return nil, err
	}
	if l.beats, err = ownPool(ctx, pool, 1); err != nil {
		l.own.Close()
		return nil, err
	}
	if l.stats, err = passingPool(ctx, pool); err != nil {
		l.own.Close()
		l.beats.Close()
		return nil, err
	}
	return l, nil
}

// readOnly is PostgreSQL's read_only_sql_transaction.
const readOnly = "25006"

// ownPool makes a small pool that connects as the caller's does, and only when it is needed.
func ownPool(ctx context.Context, pool *pgxpool.Pool, conns int32) (*pgxpool.Pool, error) {
	return newPool(ctx, pool.Config(), conns)
}

// passingPool makes a pool of one connection, which is closed after each use.
func passingPool(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Pool, error) {
	c := pool.Config()
	c.AfterRelease = func(*pgx.Conn) bool { return false }
	return newPool(ctx, c, 1)
}

// newPool gives a connection up that is found read-only: after a failover the server's name may still stand for the one that
// writes no more, and a connection to it, which beats keep alive, would outlive the pool's other reasons to make a new one
// for an hour.
func newPool(ctx context.Context, c *pgxpool.Config, conns int32) (*pgxpool.Pool, error) {
	c.MaxConns, c.MinConns, c.MinIdleConns = conns, 0, 0
	keeps := c.ConnConfig.OnPgError
	c.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		return err.Code != readOnly && (keeps == nil || keeps(conn, err))
	}
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("postgres: a pool of %d connections: %w", conns, err)
	}
	return p, nil
}

// Close closes the ledger's own connections, and waits for the calls on them. The caller's pool stays open.
func (l *Ledger) Close() {
	l.openDB.Do(func() {}) // no more
	if l.db != nil {
		if err := l.db.Close(); err != nil {
			l.log.Warn("closing the connections of InSQLTx", zap.Error(err))
		}
	}
	l.own.Close()
	l.beats.Close()
	l.stats.Close()
}

// Limits implements [ledger.Ledger].
func (l *Ledger) Limits() ledger.Limits { return l.cfg.Limits }

// TxConns implements [ledger.Pooled]: it is the MaxConns of the pool that was given to [New].
func (l *Ledger) TxConns() int { return int(l.user.Stat().MaxConns()) }

// Join implements [ledger.Ledger]. Its errors for which [ledger.Unusable] is true: no tables, a schema too old or too
// new for this program, a refused login, no such database, a missing privilege. The owner makes batches of concurrent
// calls ([ledger.Group]), and holds records of logs in ranges where it may ([ledger.Entry.Ranged]).
func (l *Ledger) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	if lease < time.Millisecond || lease > 24*time.Hour {
		return nil, &ledger.InvalidError{Field: "lease", Bound: "1ms to 24h", Value: lease.String()}
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	id, err := newOwnerID()
	if err != nil {
		return nil, err
	}
	conn, err := l.beats.Acquire(ctx)
	if err != nil {
		return nil, notSent(err)
	}
	defer conn.Release()
	var version, oldest int
	var missing string
	if err := conn.QueryRow(ctx, l.sql.meta).Scan(&version, &oldest, &missing); err != nil {
		return nil, fmt.Errorf("postgres: read the schema's version: %w", noRowIsUnusable(err))
	}
	if err := l.is.check(l.cfg.Schema, version, oldest); err != nil {
		return nil, err
	}
	if missing != "" {
		return nil, ledger.MarkUnusable(fmt.Errorf("postgres: schema %q has version %d but lacks the tables %s: restore them",
			l.cfg.Schema, version, missing))
	}
	l.scopes.forget() // this may be another database than the one that numbered them
	before := time.Now()
	var now int64
	if err := conn.QueryRow(ctx, l.sql.join, id, lease.Microseconds(), []byte(l.cfg.Host)).Scan(&now); err != nil {
		return nil, fmt.Errorf("postgres: join: %w", sent(err))
	}
	o := &owner{ledger: l, id: id, lease: lease, pulse: ledger.NewPulse(lease, before)}
	o.clock.Note(time.UnixMicro(now), time.Now())
	o.ranged = ranges.NewOwner(o, l.cfg.Limits, &l.counts)
	return ledger.Group(o.ranged, ledger.GroupConfig{
		Flushes: max(int(l.cfg.MaxConns)/2, 1), OneFlush: o.opens.Load, Timeout: callTimeout, Settled: newPatience(o).settled,
	}), nil
}

// newOwnerID draws an id, so that an owner restored away with a backup cannot meet another one under its number.
func newOwnerID() (int64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("postgres: an id for the owner: %w", err)
	}
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1, nil
}
