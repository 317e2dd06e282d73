package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
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
	cfg    Config
	names  *strings.Replacer
	made   sync.Map      // statements with the schema's name in place, by their texts
	user   *pgxpool.Pool // the caller's: InTx
	own    *pgxpool.Pool // claims, settles, reads
	beats  *pgxpool.Pool // one connection, so that no flood of claims can delay a beat
	relays *pgxpool.Pool // of the outbox
	stats  *pgxpool.Pool // one connection, and only while it is used, so that Stats that wait keep nobody else's
	log    *zap.Logger
	is     versions

	openDB sync.Once
	db     *sql.DB // InSQLTx; opened on first use

	lanes    sync.Map // targets whose lanes are made
	room     room
	scopes   scopes
	counts   ranges.Counts
	waits    lockWaits
	mayAudit atomic.Bool // this role may read the audit
	parks    atomic.Bool // the schema holds parked messages, and this program knows of it
	remarked sync.Once
}

// New makes a ledger beside the caller's pool, which serves InTx. Ledger calls use connections of their own, made with
// the same settings (pool.Config), so pool may be exhausted without harm. ctx is used only while New runs; nothing is
// asked of the database yet: [Ledger.Join] and [Ledger.Check] do, and say what is wrong with it. First of all they find out
// what engine it is, and refuse by name what has not passed the ledger's suite ([EngineError], Config.Accept).
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
	l := &Ledger{cfg: c, names: newNames(c.Schema), user: pool, log: c.Logger, is: program}
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
	if l.relays, err = ownPool(ctx, pool, relayConns); err != nil {
		l.own.Close()
		l.beats.Close()
		l.stats.Close()
		return nil, err
	}
	return l, nil
}

// relayConns is how many connections are for relays, beside those of claims. They are made when they are needed.
const relayConns = 8

// room is what is known of the outbox's room.
type room struct {
	mu     sync.Mutex
	asked  bool
	asking bool
	next   time.Time // when it is asked for again
	err    error
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
	l.relays.Close()
}

// Limits implements [ledger.Ledger].
func (l *Ledger) Limits() ledger.Limits { return l.cfg.Limits }

// TxConns implements [ledger.Pooled]: it is the MaxConns of the pool that was given to [New].
func (l *Ledger) TxConns() int { return int(l.user.Stat().MaxConns()) }

// numbers returns the numbers of all scopes' names, and makes those that are new.
func (l *Ledger) numbers(ctx context.Context, names map[string]int32) error {
	return l.scopes.numbers(ctx, l.own, l.sql(sqlScopeFind), l.sql(sqlScopeMake), names)
}

// sql is a statement with the schema's name in place.
func (l *Ledger) sql(text string) string {
	if made, ok := l.made.Load(text); ok {
		return made.(string)
	}
	made := l.names.Replace(text)
	l.made.Store(text, made)
	return made
}
