package postgres_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// bench is one ledger with its database.
type bench struct {
	*postgres.Ledger
	pool *pgxpool.Pool
	url  string
	sql  bool
}

// variant is how a test opens its ledger.
type variant struct {
	old     bool // PostgreSQL 14
	sql     bool // InTx through database/sql
	log     bool // messages are records of a log, held in ranges
	altered bool // with log: the range's sets are not as they were when it was opened
	mode    pgx.QueryExecMode
	cfg     *postgres.Config
}

// newBench makes a database with a migrated schema and a ledger on it.
func newBench(t testing.TB, v variant) *bench {
	t.Helper()
	db, from := services.Postgres, template18
	if v.old {
		db, from = services.Postgres14, template14
	}
	if v.cfg == nil || v.cfg.Schema == "" {
		return openBench(t, from.copy(t), v)
	}
	url := db(t).URL
	migrate(t, url, v.cfg)
	b := openBench(t, url, v)
	b.exec(t, createEffects)
	return b
}

const createEffects = "CREATE TABLE effects (id text)"

func migrate(t testing.TB, url string, cfg *postgres.Config) {
	t.Helper()
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c := configOf(cfg)
	if err := postgres.Migrate(t.Context(), conn, c.Schema, c.Accept...); err != nil {
		t.Fatal(err)
	}
}

// acceptVariable names engines that are refused otherwise, and on which the suite is to run: docs/engines.md.
const acceptVariable = "ACKLEDGER_TEST_ACCEPT"

// configOf is a test's configuration, with these engines.
func configOf(cfg *postgres.Config) *postgres.Config {
	var c postgres.Config
	if cfg != nil {
		c = *cfg
	}
	for name := range strings.FieldsSeq(os.Getenv(acceptVariable)) {
		c.Accept = append(c.Accept, postgres.Engine(name))
	}
	return &c
}

func openBench(t testing.TB, url string, v variant) *bench {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if v.mode != 0 {
		c.ConnConfig.DefaultQueryExecMode = v.mode
	}
	c.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := postgres.New(t.Context(), pool, configOf(v.cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		pool.Close()
	})
	return &bench{Ledger: l, pool: pool, url: url, sql: v.sql}
}

// exec runs SQL that belongs to a test, not to the ledger.
func (b *bench) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func pgUUID(b [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

func pgKey(key ledger.Key) pgtype.UUID { return pgUUID(key.Sum()) }

// store is the ledger as the suite wants it.
func (b *bench) store() ledgertest.Store {
	s := storeOf(b.Ledger, b.pool, b.url)
	if b.sql {
		s.InTx = inSQLTx
	}
	return s
}

// inserter has an effect inside a transaction.
type inserter func(ctx context.Context, id string) error

type inserterKey struct{}

const insertEffect = "INSERT INTO effects VALUES ($1)"

func inTx(ctx context.Context, fn func(context.Context) error) error {
	return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return fn(context.WithValue(ctx, inserterKey{}, inserter(func(ctx context.Context, id string) error {
			_, err := tx.Exec(ctx, insertEffect, id)
			return err
		})))
	})
}

func inSQLTx(ctx context.Context, fn func(context.Context) error) error {
	return postgres.InSQLTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return fn(context.WithValue(ctx, inserterKey{}, inserter(func(ctx context.Context, id string) error {
			_, err := tx.ExecContext(ctx, insertEffect, id)
			return err
		})))
	})
}

func storeOf(l *postgres.Ledger, pool *pgxpool.Pool, url string) ledgertest.Store {
	return ledgertest.Store{
		Ledger: l, Get: l.Get, DSN: url, InTx: inTx,
		Effect: func(ctx context.Context, id string) error { return ctx.Value(inserterKey{}).(inserter)(ctx, id) },
		Effects: func(ctx context.Context) (map[string]int, error) {
			rows, err := pool.Query(ctx, "SELECT id, count(*) FROM effects GROUP BY id")
			if err != nil {
				return nil, err
			}
			all := map[string]int{}
			var id string
			var n int
			_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error { all[id] = n; return nil })
			return all, err
		},
		Declare: func(ctx context.Context, id string) error {
			n, err := postgres.OwnerNumber(id)
			if err != nil {
				return err
			}
			_, err = pool.Exec(ctx, "UPDATE ackledger.owner SET fate = 3 WHERE id = $1 AND fate = 1", n)
			return err
		},
		Drop: func(ctx context.Context, key ledger.Key) error {
			_, err := pool.Exec(ctx, "DELETE FROM ackledger.message WHERE key = $1", pgKey(key))
			if key.Pos == nil {
				return err
			}
			sum := key.Sum()
			return errors.Join(err, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT set_config('ackledger.reopen', 'on', true)")
				for _, table := range []string{"claim_range", "segment", "range_log"} {
					_, more := tx.Exec(ctx, "DELETE FROM ackledger."+table+" WHERE log = $1", int64(binary.BigEndian.Uint64(sum[:8])))
					err = errors.Join(err, more)
				}
				return err
			}))
		},
		DropOwner: func(ctx context.Context, id string) error {
			n, err := postgres.OwnerNumber(id)
			if err != nil {
				return err
			}
			_, err = pool.Exec(ctx, "DELETE FROM ackledger.owner WHERE id = $1 AND fate <> 1", n)
			return err
		},
		Rest: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, `UPDATE ackledger.owner SET sealed = now() - interval '2 hours' WHERE fate <> 1`)
			if err == nil {
				_, err = pool.Exec(ctx, `UPDATE ackledger.maintenance SET lease_end = '-infinity'`)
			}
			return err
		},
		Age: func(ctx context.Context, d time.Duration) error { return age(ctx, pool, d) },
		Lock: func(ctx context.Context, key ledger.Key) (func(), error) {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return nil, err
			}
			var one int
			const lock = "UPDATE ackledger.message SET due = due WHERE key = $1 RETURNING 1"
			err = tx.QueryRow(ctx, lock, pgKey(key)).Scan(&one)
			if errors.Is(err, pgx.ErrNoRows) && key.Pos != nil { // it is in a range, and InTx holds that
				sum := key.Sum()
				err = tx.QueryRow(ctx, "SELECT 1 FROM ackledger.claim_range WHERE log = $1 AND first <= $2 AND last > $2 FOR KEY SHARE",
					int64(binary.BigEndian.Uint64(sum[:8])), key.Pos.Offset).Scan(&one)
			}
			if err != nil {
				_ = tx.Rollback(context.WithoutCancel(ctx))
				return nil, err
			}
			return func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }, nil
		},
	}
}

// age makes all that is in the ledger look older.
func age(ctx context.Context, pool *pgxpool.Pool, d time.Duration) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"SET LOCAL session_replication_role = replica", // the guards let nobody set a log's start or a segment's end back
			"UPDATE ackledger.message SET due = due - {d}, at = at - {d}, expiry = expiry - {d}",
			"UPDATE ackledger.archive SET at = at - {d}, expiry = expiry - {d}",
			"UPDATE ackledger.segment SET since = since - {d}, until = until - {d}, expiry = expiry - {d}",
			"UPDATE ackledger.claim_range SET at = at - {d}",
			"UPDATE ackledger.range_log SET start_at = start_at - {d}",
		} {
			if _, err := tx.Exec(ctx, strings.ReplaceAll(sql, "{d}", fmt.Sprintf("interval '%f seconds'", d.Seconds()))); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestMain(m *testing.M) {
	if url := os.Getenv(sweeperVariable); url != "" {
		if err := playSweeper(url); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	ledgertest.Main(m, func(ctx context.Context, dsn string) (ledgertest.Store, io.Closer, error) {
		pool, err := pgxpool.New(ctx, dsn)
		if err != nil {
			return ledgertest.Store{}, nil, err
		}
		l, err := postgres.New(ctx, pool, configOf(nil))
		if err != nil {
			pool.Close()
			return ledgertest.Store{}, nil, err
		}
		return storeOf(l, pool, dsn), closer(func() { l.Close(); pool.Close() }), nil
	}, dropTemplates)
}

type closer func()

func (c closer) Close() error { c(); return nil }

// shared gives all cases of one suite the same ledger: every case uses scopes of its own.
func shared(t *testing.T, v variant) ledgertest.Open {
	s := newBench(t, v).store()
	return func(*testing.T) ledgertest.Store { return s }
}

// open gives a case a database of its own.
func open(t *testing.T) ledgertest.Store { return newBench(t, variant{}).store() }

func TestLedger(t *testing.T)    { t.Parallel(); ledgertest.Run(t, shared(t, variant{})) }
func TestInTx(t *testing.T)      { t.Parallel(); ledgertest.RunInTx(t, shared(t, variant{})) }
func TestInSQLTx(t *testing.T)   { t.Parallel(); ledgertest.RunInTx(t, shared(t, variant{sql: true})) }
func TestProcesses(t *testing.T) { t.Parallel(); ledgertest.RunProcesses(t, open) }
func TestDifferential(t *testing.T) {
	t.Parallel()
	ledgertest.Differential(t, shared(t, variant{}), 40)
}

func TestInTxRepeatableRead(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{"pgx": {}, "sql": {sql: true}} {
		t.Run(name, func(t *testing.T) {
			v.cfg = &postgres.Config{Isolation: pgx.RepeatableRead}
			ledgertest.RunInTx(t, shared(t, v))
		})
	}
}

// modes are the ways in which pgx can send a statement that poolers in transaction mode need, and with ACKLEDGER_LONG=1
// the others.
func modes() []pgx.QueryExecMode {
	needed := []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	if os.Getenv("ACKLEDGER_LONG") != "" {
		return append(needed, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec)
	}
	return needed
}

// TestModes runs the suite in the ways in which pgx can send a statement.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, mode := range modes() {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			open := shared(t, variant{mode: mode})
			ledgertest.Run(t, open)
			ledgertest.RunInTx(t, open)
		})
		t.Run(mode.String()+" sql", func(t *testing.T) {
			t.Parallel()
			ledgertest.RunInTx(t, shared(t, variant{mode: mode, sql: true}))
		})
	}
}

// TestOldest runs the suite on the oldest PostgreSQL that is supported.
func TestOldest(t *testing.T) {
	t.Parallel()
	open := shared(t, variant{old: true})
	ledgertest.Run(t, open)
	ledgertest.RunInTx(t, open)
	t.Run("Differential", func(t *testing.T) { ledgertest.Differential(t, open, 40) })
}
