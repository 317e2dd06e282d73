package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger/postgres"
)

// visitPostgres asks the server about the ledger's tables. The ledger itself is open, so tables and versions fit.
func visitPostgres(ctx context.Context, url, schema string, f *findings) {
	c, err := poolConfig(url)
	if err != nil {
		return // the ledger was opened by it
	}
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		f.add(unknown, "server", err.Error(), "see the error")
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	p := &patient{conn: conn, f: f, names: strings.NewReplacer("{s}", pgx.Identifier{schema}.Sanitize())}
	settings := conn.Config().TLSConfig
	safe, says, remedy := gradeOf(conn.PgConn().Conn(), settings != nil && settings.VerifyPeerCertificate != nil)
	f.add(safe, encryption, says, remedy)
	p.engine(ctx)
	p.version(ctx)
	p.rights(ctx, schema)
	p.server(ctx)
	p.bloat(ctx, schema)
	p.transactions(ctx, schema)
	p.surroundings(ctx, schema)
}

// patient is a Postgres server.
type patient struct {
	conn  *pgx.Conn
	f     *findings
	names *strings.Replacer
}

// ask reads one row. All goes over the simple protocol, which poolers understand.
func (p *patient) ask(ctx context.Context, check, sql string, args []any, into ...any) bool {
	args = append([]any{pgx.QueryExecModeSimpleProtocol}, args...)
	if err := p.conn.QueryRow(ctx, p.names.Replace(sql), args...).Scan(into...); err != nil {
		p.f.add(unknown, check, err.Error(), "ask with a role that may read the ledger and the statistics")
		return false
	}
	return true
}

// engine: the ledger is open, so what would be refused was accepted.
func (p *patient) engine(ctx context.Context) {
	s, err := postgres.Identify(ctx, p.conn)
	if err != nil {
		p.f.add(unknown, "engine", err.Error(), "see the error")
		return
	}
	says := s.Version
	if s.Pooled {
		says += ", behind a pooler"
	}
	if s.Refused != nil {
		p.f.add(warning, "engine", fmt.Sprintf("%s: it was accepted by --accept %s, though %s", says, s.Refused.Engine, s.Refused.Reason), s.Refused.Instead)
		return
	}
	p.f.add(good, "engine", says, "")
}

func (p *patient) version(ctx context.Context) {
	var version, oldest int
	if p.ask(ctx, "tables", "SELECT schema_version, oldest_worker FROM {s}.meta", nil, &version, &oldest) {
		p.f.add(good, "tables", fmt.Sprintf("version %d, for workers of version %d and later", version, oldest), "")
	}
}

// neededRights are what the operators' commands need beyond reading all tables.
const neededRights = `
SELECT coalesce(string_agg(need, ', '), ''), current_user::text FROM (
	SELECT 'SELECT on ' || c.relname AS need FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname <> 'migration' AND NOT has_table_privilege(c.oid, 'SELECT')
	UNION ALL
	SELECT want.right || ' on ' || c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	JOIN (VALUES ('audit', 'INSERT'), ('archive', 'UPDATE'), ('archive', 'INSERT'), ('message', 'UPDATE')) AS want (name, "right")
		ON want.name = c.relname
	WHERE n.nspname = $1 AND NOT has_any_column_privilege(c.oid, want.right)
) AS missing (need)`

func (p *patient) rights(ctx context.Context, schema string) {
	var missing, role string
	if !p.ask(ctx, "rights", neededRights, []any{schema}, &missing, &role) {
		return
	}
	if missing == "" {
		p.f.add(good, "rights", fmt.Sprintf("role %s may list, replay, reopen and purge", role), "")
		return
	}
	p.f.add(problem, "rights", fmt.Sprintf("role %s lacks %s", role, missing),
		fmt.Sprintf("a worker's role needs no more: run doctor as an operator's. For an operator's, as the schema's owner: ackledger migrate --operator-role %s", role))
}

func (p *patient) server(ctx context.Context) {
	var recovery bool
	var fsync, pages string
	if !p.ask(ctx, "server", "SELECT pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes')", nil, &recovery, &fsync, &pages) {
		return
	}
	switch {
	case recovery:
		p.f.add(problem, "server", "it is a replica: nothing can be written", "name the primary in --ledger")
	case fsync != "on" || pages != "on":
		p.f.add(problem, "server", fmt.Sprintf("fsync is %s, full_page_writes is %s: a crash of the server loses what was acknowledged", fsync, pages), "set both to on")
	default:
		p.f.add(good, "server", "a primary that writes durably", "")
	}
}

// bloat: dead rows make every statement slower, and HOT impossible.
func (p *patient) bloat(ctx context.Context, schema string) {
	const most, floor = 0.5, 100_000
	var name string
	var live, dead int64
	var off bool
	if !p.ask(ctx, "bloat", `SELECT coalesce(max(relname), ''), coalesce(max(n_live_tup), 0), coalesce(max(n_dead_tup), 0) FROM (
		SELECT relname::text, n_live_tup, n_dead_tup FROM pg_catalog.pg_stat_user_tables WHERE schemaname = $1
			AND relname IN ('message', 'archive', 'segment', 'claim_range') ORDER BY n_dead_tup::float8 / (n_live_tup + 100000) DESC LIMIT 1) AS worst`,
		[]any{schema}, &name, &live, &dead) {
		return
	}
	if !p.ask(ctx, "bloat", "SELECT current_setting('autovacuum') <> 'on'", nil, &off) {
		return
	}
	switch {
	case off:
		p.f.add(problem, "bloat", "autovacuum is off: the tables only grow", "set autovacuum to on")
	case dead > floor && float64(dead) > most*float64(live):
		p.f.add(warning, "bloat", fmt.Sprintf("table %s has about %s dead rows beside %s live ones", name, count(dead), count(live)),
			p.names.Replace("VACUUM {s}."+name+"; if it does not help, end long transactions and unused replication slots"))
	default:
		p.f.add(good, "bloat", "dead rows are vacuumed", "")
	}
}

// What keeps transactions too long. A worker's ends its transactions within seconds, so that one which waits for its client
// with a row of the ledger's tables locked belongs to a process that is frozen, or was left open by hand.
const (
	openLate  = time.Hour
	idleLate  = 5 * time.Second
	openAsked = `
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - a.xact_start)), 0)::float8, count(*) FILTER (WHERE a.state IS NULL),
	coalesce(max(extract(epoch FROM clock_timestamp() - a.state_change)) FILTER (WHERE h.ours AND a.state LIKE 'idle in transaction%'), 0)::float8,
	coalesce((array_agg(a.pid ORDER BY a.state_change) FILTER (WHERE h.ours AND a.state LIKE 'idle in transaction%'))[1], 0)
FROM pg_catalog.pg_stat_activity a
CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
	JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE l.pid = a.pid AND l.granted AND n.nspname = $1 AND l.mode <> 'AccessShareLock') AS ours) h
WHERE a.datname = current_database() AND coalesce(a.backend_type, 'client backend') = 'client backend' AND a.pid <> pg_backend_pid()`
)

// transactions: one that stays open keeps vacuum from all that was deleted since, and others from what it has locked. A role
// without pg_read_all_stats is not told what other roles' sessions do.
func (p *patient) transactions(ctx context.Context, schema string) {
	var open, idle float64
	var hidden, pid int
	if !p.ask(ctx, "transactions", openAsked, []any{schema}, &open, &hidden, &idle, &pid) {
		return
	}
	age := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	switch {
	case age(idle) > idleLate:
		p.f.add(problem, "transactions", fmt.Sprintf("session %d has waited for its client for %s with a transaction open that holds locks on the ledger's tables: workers wait for them",
			pid, short(age(idle))), fmt.Sprintf("end it: SELECT pg_terminate_backend(%d); its process is frozen, cut off, or waits for somebody to type COMMIT", pid))
	case age(open) > openLate:
		p.f.add(warning, "transactions", fmt.Sprintf("a transaction is open for %s: what was deleted since takes space", short(age(open))),
			"look for it in pg_stat_activity (xact_start), and end it")
	case hidden > 0:
		p.f.add(good, "transactions", fmt.Sprintf("none is open for long, as far as this role may see: what %d sessions of other roles do is shown with pg_read_all_stats alone", hidden), "")
	default:
		p.f.add(good, "transactions", "none is open for long", "")
	}
}
