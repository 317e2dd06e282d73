package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

const (
	plain18    = "PostgreSQL 18.6 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 12.2.0, 64-bit"
	ownProcess = 4711
)

// relative is how a server answers.
type relative struct {
	name    string
	engine  postgres.Engine
	version string
	shows   string // what its catalogs and settings show
	method  string // empty: heap
	crdb    string
	refuses string // it does not answer what PostgreSQL answers, but with this code
	spanner bool   // it knows PGAdapter's settings
}

// relatives say of themselves what the servers of these names said to others: docs/engines.md names the sources.
var relatives = []relative{
	{name: "CockroachDB", engine: postgres.CockroachDB, refuses: "42883", crdb: "v26.2.5",
		version: "CockroachDB CCL v26.2.5 (x86_64-pc-linux-gnu, built 2026/07/28 18:56:00, go1.25.5)"},
	{name: "CockroachDB that answers all", engine: postgres.CockroachDB,
		version: "CockroachDB CCL v27.1.0 (x86_64-pc-linux-gnu, built 2027/01/01 00:00:00, go1.27)"},
	{name: "CockroachDB by its parameter", engine: postgres.CockroachDB, crdb: "v28", version: plain18},
	{name: "YugabyteDB", engine: postgres.YugabyteDB,
		version: "PostgreSQL 15.12-YB-2026.1.0.1-b0 on x86_64-pc-linux-gnu, compiled by clang version 21.1.1, 64-bit"},
	{name: "PGlite", engine: postgres.PGlite,
		version: "PostgreSQL 18.6 (PGlite 0.5.14) on wasm32-unknown-emscripten, compiled by emcc 6.0.5, 32-bit"},
	{name: "Materialize", engine: postgres.Materialize, refuses: "XX000",
		version: "PostgreSQL 9.5 on x86_64-unknown-linux-gnu (Materialize 26.36.0)"},
	{name: "RisingWave", engine: postgres.RisingWave, refuses: "XX000",
		version: "PostgreSQL 13.14.0-RisingWave-3.0.2 (391c3a16ef26d0cd86d1236c9b7c122a9a27fb1e)"},
	{name: "Redshift", engine: postgres.Redshift, refuses: "42883",
		version: "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017, Redshift 1.0.77467"},
	{name: "Greenplum", engine: postgres.Greenplum,
		version: "PostgreSQL 12.12 (Greenplum Database 7.4.0 build commit:27de6dc6) on x86_64-pc-linux-gnu, 64-bit"},
	{name: "EDB", engine: postgres.EDBAdvanced,
		version: "PostgreSQL 17.4 (EnterpriseDB Advanced Server 17.4.0) on x86_64-pc-linux-gnu, compiled by gcc, 64-bit"},
	{name: "Aurora DSQL", engine: postgres.AuroraDSQL, version: "PostgreSQL 16", shows: "dsql"},
	{name: "Spanner", engine: postgres.Spanner, version: "PostgreSQL 14.1", refuses: "P0001", spanner: true},
	{name: "Spanner that answers all", engine: postgres.Spanner, version: "PostgreSQL 14.1", shows: "spanner"},
	{name: "Aurora PostgreSQL", engine: postgres.AuroraPostgreSQL, version: "PostgreSQL 17.4 on x86_64-pc-linux-gnu, 64-bit", shows: "aurora"},
	{name: "AlloyDB", engine: postgres.AlloyDB, version: "PostgreSQL 17.5 on x86_64-pc-linux-gnu, 64-bit", shows: "alloydb"},
	{name: "Neon", engine: postgres.Neon, version: "PostgreSQL 17.5 on x86_64-pc-linux-gnu, 64-bit", shows: "neon"},
	{name: "Citus", engine: postgres.Citus, version: plain18, shows: "citus"},
	{name: "CrateDB", engine: postgres.OtherEngine, version: "CrateDB 6.0.2 (built 74acae1/NA, Linux 6.1, OpenJDK 24)", refuses: "42883"},
	{name: "one that says nothing", engine: postgres.OtherEngine, version: ""},
	{name: "one that only claims to be PostgreSQL", engine: postgres.OtherEngine, version: plain18, refuses: "0A000"},
	{name: "PostgreSQL 13", engine: postgres.PostgreSQL, version: "PostgreSQL 13.22 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit"},
	{name: "PostgreSQL 11", engine: postgres.PostgreSQL, version: "PostgreSQL 11.22 on x86_64-pc-linux-gnu", refuses: "42704"},
	{name: "columnar tables", engine: postgres.OtherStorage, version: plain18, method: "columnar"},
}

func (r *relative) pretend() *pretender {
	p := &pretender{crdb: r.crdb, process: ownProcess, refuses: "42P01", rows: map[string][]string{postgres.SQLVersion: {r.version}}}
	if r.refuses == "" {
		p.rows[postgres.SQLFacts] = []string{r.version, strconv.Itoa(ownProcess), cmp.Or(r.method, "heap"), r.shows}
	} else {
		p.refuses = r.refuses
	}
	if r.spanner {
		p.rows[postgres.SQLSpanner] = []string{"false"}
	}
	return p
}

// opens are all who begin with a connection, each with what it is told to accept.
var opens = map[string]func(ctx context.Context, url string, accept ...postgres.Engine) error{
	"Migrate": func(ctx context.Context, url string, accept ...postgres.Engine) error {
		c, err := pgx.ParseConfig(url)
		if err != nil {
			return err
		}
		return postgres.Migrate(ctx, c, "", accept...)
	},
	"Join": func(ctx context.Context, url string, accept ...postgres.Engine) error {
		return openedBy(ctx, url, accept, func(l *postgres.Ledger) error { _, err := l.Join(ctx, time.Minute); return err })
	},
	"Check": func(ctx context.Context, url string, accept ...postgres.Engine) error {
		return openedBy(ctx, url, accept, func(l *postgres.Ledger) error { return l.Check(ctx) })
	},
}

// openedBy calls do with a ledger behind a URL, in the way to send that all poolers know.
func openedBy(ctx context.Context, url string, accept []postgres.Engine, do func(*postgres.Ledger) error) error {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := postgres.New(ctx, pool, &postgres.Config{Accept: accept})
	if err != nil {
		return err
	}
	defer l.Close()
	return do(l)
}

// refusedAs says that an error refuses an engine by name, with all that there is to say.
func refusedAs(t *testing.T, err error, engine postgres.Engine, version string) {
	t.Helper()
	var refused *postgres.EngineError
	if !errors.As(err, &refused) || !ledger.Unusable(err) || ledger.Unknown(err) {
		t.Fatalf("not refused: %v", err)
	}
	if refused.Engine != engine || !strings.HasPrefix(refused.Version, version) || refused.Reason == "" || refused.Instead == "" {
		t.Errorf("refused as %+v, want %s", refused, engine)
	}
	if text := err.Error(); !strings.Contains(text, string(engine)) || !strings.Contains(text, refused.Reason) || !strings.Contains(text, refused.Instead) {
		t.Errorf("it says: %s", text)
	}
}

// A ledger's tables were made on whatever speaks PostgreSQL's protocol, and the first statement that it does not know failed in the
// midst of it, or in the midst of the work. What is not PostgreSQL is refused by name, before anything but the question is sent
// there; who accepts it by its name is let through.
func TestPitfall193_NotPostgreSQL(t *testing.T) {
	t.Parallel()
	for _, r := range relatives {
		for who, open := range opens {
			t.Run(r.name+" "+who, func(t *testing.T) {
				t.Parallel()
				p := r.pretend()
				url := p.start(t)
				refusedAs(t, open(t.Context(), url), r.engine, r.version)
				if got := p.beyond(); len(got) > 0 {
					t.Errorf("it was sent %q", got)
				}
				err := open(t.Context(), url, r.engine)
				if _, refused := errors.AsType[*postgres.EngineError](err); refused || err == nil {
					t.Errorf("accepted: %v", err)
				}
				if len(p.beyond()) == 0 {
					t.Error("accepted, but nothing was sent")
				}
			})
		}
	}
}

// A server that does not answer at the moment is no other engine, and what it is stays open.
func TestNotReadyIsNoEngine(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"57P03", "57014", "53300", "40001", "55P03"} {
		for who, open := range opens {
			t.Run(code+" "+who, func(t *testing.T) {
				t.Parallel()
				p := &pretender{process: ownProcess, refuses: code, rows: map[string][]string{}}
				err := open(t.Context(), p.start(t))
				if _, refused := errors.AsType[*postgres.EngineError](err); err == nil || refused || ledger.Unusable(err) {
					t.Errorf("%v", err)
				}
				if got := p.beyond(); len(got) > 0 {
					t.Errorf("it was sent %q", got)
				}
			})
		}
	}
}

// TestAcceptNamesEngines: a name that is none is refused, before a connection is made.
func TestAcceptNamesEngines(t *testing.T) {
	t.Parallel()
	for who, open := range opens {
		var bad *ledger.InvalidError
		if err := open(t.Context(), "postgres://127.0.0.1:1/x", "oracle"); !errors.As(err, &bad) || bad.Field != "Config.Accept" ||
			!strings.Contains(bad.Bound, "aurora") {
			t.Errorf("%s: %v", who, err)
		}
	}
}
