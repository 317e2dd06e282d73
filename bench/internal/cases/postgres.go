package cases

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// postgresConf are the settings of the server that the benchmark starts: no checkpoint within a run, whose full-page
// images would hit one case and spare the next. fsync and synchronous_commit stay on. autovacuum looks every 5 s, as the README
// advises where bursts come: with the default, once a minute, five million messages come in between.
var postgresConf = map[string]string{"shared_buffers": "1GB", "max_wal_size": "32GB", "checkpoint_timeout": "1h", "max_connections": "200",
	"autovacuum_naptime": "5s"}

// database is a database of the benchmark's own.
type database struct {
	url   string
	admin *pgxpool.Pool
	owned bool // the server is ours, so we may ask it for a checkpoint
}

// postgresServer starts PostgreSQL, or takes the one that the environment names, once.
func postgresServer(ctx context.Context, r *suite.Run) (*database, error) {
	return suite.Once(r.All, "PostgreSQL", func() (*database, func() error, error) {
		root, stop, owned := os.Getenv(services.EnvPostgres), func() error { return nil }, false
		if root == "" {
			server, err := services.StartPostgres(ctx, services.PostgresOptions{Conf: postgresConf})
			if err != nil {
				return nil, nil, err
			}
			root, stop, owned = server.URL(), server.Close, true
		}
		d, drop, err := newDatabase(ctx, root)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		d.owned = owned
		if err := d.note(ctx, r.All); err != nil {
			return nil, nil, errors.Join(err, drop(), stop())
		}
		return d, func() error { return errors.Join(drop(), stop()) }, nil
	})
}

// note writes down what the server is.
func (d *database) note(ctx context.Context, all *suite.Scope) error {
	var text string
	err := d.admin.QueryRow(ctx, `SELECT current_setting('server_version') || ', ' ||
		string_agg(name || ' ' || current_setting(name), ', ' ORDER BY name) FROM pg_settings
		WHERE name IN ('shared_buffers', 'max_wal_size', 'checkpoint_timeout', 'fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum', 'autovacuum_naptime')`).Scan(&text)
	all.Note("PostgreSQL", text)
	return err
}

// newDatabase makes a database of a new name on the server at root.
func newDatabase(ctx context.Context, root string) (*database, func() error, error) {
	u, err := url.Parse(root)
	if err != nil {
		return nil, nil, fmt.Errorf("%s must be a URL", services.EnvPostgres) // not the value: it may hold a password
	}
	name := "bench_" + newName()
	if err := execute(ctx, root, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return nil, nil, err
	}
	u.Path = "/" + name
	drop := func() error {
		return execute(context.Background(), root, "DROP DATABASE "+name+" WITH (FORCE)")
	}
	admin, err := newPool(ctx, u.String(), 2, nil)
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	return &database{url: u.String(), admin: admin}, func() error {
		admin.Close()
		return drop()
	}, nil
}

func execute(ctx context.Context, url, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// newPool opens all its connections: their making is not part of what is measured.
func newPool(ctx context.Context, url string, conns int32, params map[string]string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = conns, conns
	for k, v := range params {
		cfg.ConnConfig.RuntimeParams[k] = v
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// newName is a name that nothing has yet, of small letters and digits.
func newName() string { return "b" + strings.ToLower(rand.Text()[:12]) }

// newSchema makes an empty schema in the benchmark's database, dropped when undo is called. What earlier runs left in
// the server's memory is on the disk before the run begins.
func newSchema(ctx context.Context, r *suite.Run) (d *database, schema string, undo func() error, err error) {
	if d, err = postgresServer(ctx, r); err != nil {
		return nil, "", nil, err
	}
	schema = newName()
	if _, err := d.admin.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, "", nil, err
	}
	if err := errors.Join(d.checkpoint(ctx, r), r.Count(suite.Commits, d.transactions)); err != nil {
		return nil, "", nil, err
	}
	return d, schema, func() error {
		_, err := d.admin.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		return err
	}, nil
}

// transactions is how many the server has begun that write. What sets a case up is among them, some 30.
func (d *database) transactions() (n int64, err error) {
	err = d.admin.QueryRow(context.Background(), "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&n)
	return n, err
}

// checkpoint writes to the disk what is in the server's memory only, if the server is ours.
func (d *database) checkpoint(ctx context.Context, r *suite.Run) error {
	if !d.owned || r.Mode == suite.Smoke {
		return nil
	}
	_, err := d.admin.Exec(ctx, "CHECKPOINT")
	return err
}

// rows is a ledger of ours in a schema of its own.
type rows struct {
	*postgres.Ledger
	pool   *pgxpool.Pool // serves InTx
	db     *database
	schema string
}

// newRows makes a ledger in PostgreSQL whose pool for InTx has so many connections, and what undoes it. The schema names its sessions.
func newRows(ctx context.Context, r *suite.Run, conns int32) (*rows, func() error, error) {
	d, schema, drop, err := newSchema(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	pool, err := newPool(ctx, d.url, conns, map[string]string{"application_name": schema})
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	fail := func(err error) (*rows, func() error, error) {
		pool.Close()
		return nil, nil, errors.Join(err, drop())
	}
	if err := postgres.Migrate(ctx, pool.Config().ConnConfig, schema); err != nil {
		return fail(err)
	}
	l, err := postgres.New(ctx, pool, &postgres.Config{Schema: schema})
	if err != nil {
		return fail(err)
	}
	return &rows{l, pool, d, schema}, func() error {
		l.Close()
		pool.Close()
		return drop()
	}, nil
}

// freshRows is newRows for one run.
func freshRows(ctx context.Context, r *suite.Run, conns int32) (*rows, error) {
	l, undo, err := newRows(ctx, r, conns)
	if err != nil {
		return nil, err
	}
	r.Cleanup(undo)
	return l, nil
}

// settled does what autovacuum would do of what was written so far: it looks every 5 s, and would hit one case and spare the next.
func (l *rows) settled(ctx context.Context) error {
	for _, table := range []string{"message", "archive"} {
		if _, err := l.db.admin.Exec(ctx, "VACUUM (ANALYZE) "+l.schema+"."+table); err != nil {
			return err
		}
	}
	return nil
}

// size is what all tables of a schema take, indexes included, in bytes.
func (d *database) size(ctx context.Context, schema string) (bytes int64, err error) {
	err = d.admin.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, schema).Scan(&bytes)
	return bytes, err
}

// hot is the share of HOT updates among all updates of a schema's tables since it was made, in percent. A session
// reports what it did once a second, and when it ends: call it after the ledger's connections are closed, or settled.
func (d *database) hot(ctx context.Context, schema string) (percent float64, err error) {
	err = d.admin.QueryRow(ctx, `SELECT coalesce(100.0 * sum(n_tup_hot_upd) / nullif(sum(n_tup_upd), 0), 0)::float8
		FROM pg_stat_user_tables WHERE schemaname = $1`, schema).Scan(&percent)
	return percent, err
}

// written is what has gone to the disk so far.
type written struct{ rows, commits, wal float64 }

func (w written) less(o written) written {
	return written{w.rows - o.rows, w.commits - o.commits, w.wal - o.wal}
}

// gone waits until a schema's sessions have ended, which report what they did at the latest then.
func (d *database) gone(ctx context.Context, schema string) error {
	return until(ctx, func() (gone bool, err error) {
		err = d.admin.QueryRow(ctx, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, schema).Scan(&gone)
		return gone, err
	})
}

// written is how many rows of a schema were inserted, updated and deleted, and how many transactions and bytes of the log the database
// and the server have seen.
func (d *database) written(ctx context.Context, schema string) (w written, err error) {
	err = d.admin.QueryRow(ctx, `SELECT
		(SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables WHERE schemaname = $1),
		(SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = current_database()),
		(pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8`, schema).Scan(&w.rows, &w.commits, &w.wal)
	return w, err
}
