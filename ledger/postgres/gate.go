package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// sqlFacts asks in one round trip what tells PostgreSQL from its relatives. The first that is true counts: each shows what the
	// others may show as well. It finds functions and settings by their names, so none needs to be there.
	sqlFacts = `
SELECT pg_catalog.version(), pg_catalog.pg_backend_pid(), pg_catalog.current_setting('default_table_access_method'), CASE
	WHEN pg_catalog.current_setting('spanner.ddl_transaction_mode', true) IS NOT NULL THEN 'spanner'
	WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'sys' AND c.relname = 'iam_pg_role_mappings') THEN 'dsql'
	WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_proc WHERE proname = 'aurora_version') THEN 'aurora'
	WHEN coalesce(pg_catalog.current_setting('alloydb.iam_authentication', true),
		pg_catalog.current_setting('google_columnar_engine.enabled', true)) IS NOT NULL THEN 'alloydb'
	WHEN pg_catalog.current_setting('neon.timeline_id', true) IS NOT NULL THEN 'neon'
	WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus') THEN 'citus'
	ELSE '' END`

	// These are for what does not answer sqlFacts. PGAdapter documents the setting.
	sqlVersion = `SELECT version()`
	sqlSpanner = `SHOW spanner.readonly`

	sqlProcess = `SELECT pg_catalog.pg_backend_pid()`
)

// longestVersion bounds what is kept of a server's word about itself, in bytes.
const longestVersion = 300

// poolerWait bounds what is asked of a second connection, for which a pooler may have no server.
const poolerWait = 3 * time.Second

// Identify asks a connection what it leads to: one round trip to PostgreSQL, three at most to others. It changes nothing. The
// connection must not be in a transaction. Its error is one of the connection, or of a server that is not ready.
func Identify(ctx context.Context, conn *pgx.Conn) (Server, error) {
	s, err := identify(ctx, conn.PgConn())
	if err != nil {
		return s, fmt.Errorf("postgres: %w", usable(err))
	}
	return s, nil
}

func identify(ctx context.Context, conn *pgconn.PgConn) (Server, error) {
	f, err := factsOf(ctx, conn)
	if err != nil {
		return Server{}, fmt.Errorf("find out what the server is: %w", err)
	}
	return judge(f), nil
}

// factsOf asks with the simple protocol, which all poolers and relatives of PostgreSQL speak.
func factsOf(ctx context.Context, conn *pgconn.PgConn) (f facts, err error) {
	f.key, f.crdb = conn.PID(), conn.ParameterStatus("crdb_version") != ""
	row, err := ask(ctx, conn, sqlFacts, 4)
	if err == nil {
		f.version, f.method, f.shows = row[0], row[2], Engine(row[3])
		process, none := strconv.ParseUint(row[1], 10, 32)
		if f.process = uint32(process); none != nil {
			f.odd = "its process has no number"
		}
		return f, nil
	}
	if !answered(conn, err) {
		return f, err
	}
	f.odd = "it does not answer what PostgreSQL answers: " + err.Error()
	if row, err = ask(ctx, conn, sqlVersion, 1); err != nil {
		return f, err
	}
	f.version = row[0]
	if _, err = ask(ctx, conn, sqlSpanner, 1); err == nil {
		f.shows = Spanner
	} else if !answered(conn, err) {
		return f, err
	}
	return f, nil
}

// errShape says that an answer has not the rows and columns that were asked for.
var errShape = errors.New("its answer has another shape")

// ask reads one row of so many columns, as text; null is empty.
func ask(ctx context.Context, conn *pgconn.PgConn, sql string, columns int) ([]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != columns {
		return nil, errShape
	}
	row := make([]string, columns)
	for i, value := range results[0].Rows[0] {
		row[i] = strings.ToValidUTF8(string(value[:min(len(value), longestVersion)]), "")
	}
	return row, nil
}

// answered tells an engine that cannot do what it is asked from one that cannot at the moment, or is gone. The classes are those of
// connections, logins, serialization, resources, state, an operator's doing and the system (PostgreSQL documentation, appendix A).
func answered(conn *pgconn.PgConn, err error) bool {
	if conn.IsClosed() {
		return false
	}
	if errors.Is(err, errShape) {
		return true
	}
	c := code(err)
	if len(c) != 5 {
		return false
	}
	switch c[:2] {
	case "08", "28", "40", "53", "55", "57", "58":
		return false
	}
	return true
}

// admit refuses what is not to have a ledger, unless it is accepted by name. It comes before all else that is asked there.
func admit(ctx context.Context, conn *pgx.Conn, accept []Engine) (Server, error) {
	s, err := identify(ctx, conn.PgConn())
	if err != nil {
		return s, err
	}
	if err := s.admitted(accept); err != nil || !s.Pooled {
		return s, err
	}
	single, err := oneStatement(ctx, conn.PgConn())
	if err != nil {
		return s, fmt.Errorf("find out how the pooler works: %w", err)
	}
	if single {
		s.refuse(StatementPooler, "")
	}
	return s, s.admitted(accept)
}

// oneStatement says whether a pooler refuses transactions of several statements, by what PgBouncer says then: it ends the
// connection (its src/server.c).
func oneStatement(ctx context.Context, conn *pgconn.PgConn) (bool, error) {
	_, err := conn.Exec(ctx, "BEGIN").ReadAll()
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(pg.Message, "statement pooling") {
		return true, nil
	}
	if err == nil {
		_, err = conn.Exec(ctx, "ROLLBACK").ReadAll()
	}
	return false, err
}

// admitSession is admit for what needs a session of its own, on a connection of its own.
func admitSession(ctx context.Context, config *pgx.ConnConfig, accept []Engine) (err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	s, err := admit(ctx, conn, accept)
	if err != nil || !s.Pooled {
		return err
	}
	moves, err := movesServers(ctx, config, conn.PgConn())
	if err != nil {
		return fmt.Errorf("find out how the pooler works: %w", err)
	}
	if moves {
		s.refuse(TransactionPooler, "")
	}
	return s.admitted(accept)
}

// movesServers says whether a pooler gives the server of a connection to others while that is open. It is proven by two open
// connections that meet one process of the server, or by one that meets two. PgBouncer gives out first what it got back last, so
// mostly the first look is enough. What cannot be proven within poolerWait is no: a pooler in session mode may have no second server.
func movesServers(ctx context.Context, config *pgx.ConnConfig, first *pgconn.PgConn) (bool, error) {
	const looks = 4
	short, cancel := context.WithTimeout(ctx, poolerWait)
	defer cancel()
	conn, err := pgx.ConnectConfig(short, config)
	if err != nil {
		return false, unless(short, ctx, err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing was begun there that is to be known
	second := conn.PgConn()
	for range looks {
		mine, err := ask(short, first, sqlProcess, 1)
		if err != nil {
			return false, unless(short, ctx, err)
		}
		if _, err = second.Exec(short, "BEGIN").ReadAll(); err != nil {
			return false, unless(short, ctx, err)
		}
		theirs, err := ask(short, second, sqlProcess, 1)
		if err != nil || theirs[0] == mine[0] {
			return err == nil, unless(short, ctx, err)
		}
		again, err := ask(short, first, sqlProcess, 1) // while the other's is taken
		if err != nil || again[0] != mine[0] {
			return err == nil, unless(short, ctx, err)
		}
		if _, err = second.Exec(short, "ROLLBACK").ReadAll(); err != nil {
			return false, unless(short, ctx, err)
		}
	}
	return false, nil
}

// unless is the error, or nil if it comes of the short context's own limit.
func unless(short, ctx context.Context, err error) error {
	if short.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}
