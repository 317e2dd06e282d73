package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestJoinRefuses: what cannot heal by itself is told from an outage, in words that say what to do.
func TestJoinRefuses(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	b := openBench(t, db.URL, variant{})
	refused := func(t *testing.T, b *bench, words ...string) {
		t.Helper()
		_, err := b.Join(t.Context(), time.Minute)
		if !ledger.Unusable(err) || ledger.Unknown(err) {
			t.Fatalf("join: %v, want an unusable ledger", err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Fatalf("join: %q does not say %q", err, w)
			}
		}
	}
	refused(t, b, "tables are missing", "postgres.Migrate")
	migrate(t, db.URL, nil)
	if _, err := b.Join(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "UPDATE ackledger.meta SET schema_version = 102, oldest_worker = 101")
	refused(t, b, "version 102", "of version 101 or later", "this one is 19")
	b.exec(t, "UPDATE ackledger.meta SET schema_version = 0, oldest_worker = 0")
	refused(t, b, "has version 0", "needs 6 or later")
	b.exec(t, "DELETE FROM ackledger.meta")
	refused(t, b, "version is missing")

	other := func(from, to string) *bench { return openBench(t, strings.Replace(db.URL, from, to, 1), variant{}) }
	refused(t, other("/"+db.Database, "/no_such_database_here"), "no such database")
	refused(t, other("postgres@", "no_such_role_here@"), "refuses the login")
	b.exec(t, "DROP ROLE IF EXISTS "+db.Database)
	b.exec(t, "CREATE ROLE "+db.Database+" LOGIN")
	t.Cleanup(func() {
		if _, err := b.pool.Exec(context.Background(), "DROP ROLE "+db.Database); err != nil {
			t.Error(err)
		}
	})
	refused(t, other("postgres@", db.Database+"@"), "lacks a privilege")
}

// TestJoinOutage: a server that is not there may come back.
func TestJoinOutage(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://postgres@127.0.0.1:1/x?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Join(t.Context(), time.Minute); err == nil || ledger.Unusable(err) || ledger.Unknown(err) {
		t.Fatalf("join: %v", err)
	}
	for _, lease := range []time.Duration{0, time.Millisecond - 1, 24*time.Hour + 1} {
		if _, err := l.Join(t.Context(), lease); !strings.Contains(fmt.Sprint(err), "1ms to 24h") {
			t.Errorf("a lease of %s: %v", lease, err)
		}
	}
}

// TestMigrateAtOnce: any number of processes may migrate at the same time, and again; names need quotes.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	const schema = `Odd "name"; DROP`
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := postgres.Migrate(t.Context(), conn, schema); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	cfg := &postgres.Config{Schema: schema}
	b := openBench(t, db.URL, variant{cfg: cfg})
	o := join(t, b, time.Minute)
	c := claimOne(t, o, entry("a"), ledger.Run)
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}); err != nil {
		t.Fatal(err)
	}
	claimOne(t, o, entry("a"), ledger.Done)
}

// TestConfigRefused: each bound names its field and the value.
func TestConfigRefused(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/x")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for field, cfg := range map[string]*postgres.Config{
		"Config.Schema":         {Schema: strings.Repeat("x", 64)},
		"Config.MaxConns":       {MaxConns: -1},
		"Config.LockWait":       {LockWait: time.Hour},
		"Config.Isolation":      {Isolation: pgx.Serializable},
		"Config.IdleLimit":      {IdleLimit: -1},
		"Config.TxLimit":        {TxLimit: -1},
		"Config.CommitLimit":    {CommitLimit: -1},
		"Config.Limits.Archive": {Limits: ledger.Limits{Archive: 1 << 30}},
		"Config.Limits.Result":  {Limits: ledger.Limits{Result: -1}},
		"Config.Limits.Errors":  {Limits: ledger.Limits{Errors: -1}},
	} {
		var bad *ledger.InvalidError
		if _, err := postgres.New(t.Context(), pool, cfg); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for name, cfg := range map[string]*postgres.Config{
		"least": {Schema: "x", MaxConns: 1, LockWait: time.Millisecond, IdleLimit: time.Millisecond, TxLimit: time.Millisecond,
			CommitLimit: time.Millisecond, Limits: ledger.Limits{Result: 1, Archive: 1, Errors: 1}},
		"most": {Schema: strings.Repeat("x", 63), MaxConns: 1000, LockWait: time.Minute, IdleLimit: 24 * time.Hour, TxLimit: 24 * time.Hour,
			CommitLimit: time.Hour, Limits: ledger.Limits{Result: 64 << 20, Archive: 256 << 20, Errors: 1 << 20}},
	} {
		l, err := postgres.New(t.Context(), pool, cfg)
		if err != nil {
			t.Errorf("the %s of all: %v", name, err)
			continue
		}
		l.Close()
	}
	if _, err := postgres.New(t.Context(), nil, nil); err == nil {
		t.Error("no pool: accepted")
	}
	if err := postgres.Migrate(t.Context(), nil, ""); err == nil {
		t.Error("no connection: accepted")
	}
}

// TestUserCannotStarve: InTx and the program may hold every connection of the pool; claims, settles and beats go on.
func TestUserCannotStarve(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	takeConns(t, b)
	c := claimOne(t, o, entry("a"), ledger.Run)
	if _, err := o.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}); err != nil {
		t.Fatal(err)
	}
}

// TestTxLimits: a transaction that idles or lasts too long ends, is rolled back, and its message can be settled.
func TestTxLimits(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]*postgres.Config{
		"idle": {IdleLimit: 100 * time.Millisecond}, "total": {TxLimit: 100 * time.Millisecond},
	} {
		for kind, run := range map[string]func(context.Context, func(context.Context) error) error{"pgx": inTx, "sql": inSQLTx} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, variant{cfg: cfg})
				o := join(t, b, time.Minute)
				c := claimOne(t, o, entry("a"), ledger.Run)
				a := ledger.NewAttempt(o, c.Ticket)
				err := run(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
					if err := ctx.Value(inserterKey{}).(inserter)(ctx, "effect"); err != nil {
						return err
					}
					timer := time.NewTimer(500 * time.Millisecond)
					defer timer.Stop()
					<-timer.C
					return nil
				})
				if state, _ := a.State(); err == nil || ledger.IsLost(err) || state != ledger.AttemptOpen {
					t.Fatalf("InTx: %v, state %d", err, state)
				}
				if n := b.number(t, "SELECT count(*) FROM effects"); n != 0 {
					t.Fatalf("%d effects", n)
				}
				if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release}); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// A schema whose version is there and whose tables are not served an idle worker for hours, until the first message.
func TestJoinRefusesASchemaWithoutItsTables(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, `DROP TABLE ackledger.archive`)
	_, err := b.Join(t.Context(), time.Minute)
	if !ledger.Unusable(err) || !strings.Contains(err.Error(), "archive") || strings.Contains(err.Error(), "message") {
		t.Errorf("join without an archive: %v", err)
	}
}
