package storm_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// long says that this is `make test-long`.
func long() bool { return os.Getenv("ACKLEDGER_LONG") != "" }

// database is a server of the test's own, which it may stop.
type database struct {
	server *services.PostgresServer
	pool   *pgxpool.Pool
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	services.NeedServers(t)
	server, err := services.StartPostgres(t.Context(), services.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	config, err := pgx.ParseConfig(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), config, postgres.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	// No unique constraint: a message that is done twice has two rows.
	_, err = pool.Exec(t.Context(), `CREATE TABLE effect (seq bigserial, message text NOT NULL, body text NOT NULL,
		grp text NOT NULL, part integer NOT NULL, off bigint NOT NULL, process text NOT NULL)`)
	if err == nil {
		_, err = pool.Exec(t.Context(), `CREATE INDEX ON effect (part, off)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &database{server, pool}
}

// count runs a query for one number. It is fatal if the database does not answer, so it is for times when it should.
func (d *database) count(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := d.pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// tryCount is count while the database may be away.
func (d *database) tryCount(ctx context.Context, query string, args ...any) (n int, ok bool) {
	err := d.pool.QueryRow(ctx, query, args...).Scan(&n)
	return n, err == nil
}

// outage stops the database for a while in which it calls meanwhile, and returns from when to when nothing could be
// reached.
func (d *database) outage(t *testing.T, lasts time.Duration, meanwhile func()) (from, to time.Time) {
	t.Helper()
	if err := d.server.Stop(); err != nil {
		t.Fatal(err)
	}
	from = time.Now()
	meanwhile()
	time.Sleep(time.Until(from.Add(lasts))) // the length of the outage is what is tested
	to = time.Now()
	if err := d.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return from, to
}

// noticing is how long a worker may take to see that the database is gone: calls on their way, and those that handlers
// begin before the first of them has failed.
const noticing = 2 * time.Second

// expectSilence says that no handler began while the database was away.
func expectSilence(t *testing.T, c *crew, from, to time.Time) {
	t.Helper()
	if n := c.beganBetween(from.Add(noticing), to); n > 0 {
		t.Errorf("%d handlers began while the database was away", n)
	}
}

// expectEffects says that each of n messages had its effect exactly once, in each of several rounds of n that make all.
func expectEffects(t *testing.T, d *database, n, all int) {
	t.Helper()
	if rows := d.count(t, `SELECT count(*) FROM effect`); rows != all {
		t.Errorf("%d effects, there should be %d", rows, all)
	}
	if bodies := d.count(t, `SELECT count(DISTINCT body) FROM effect`); bodies != n {
		t.Errorf("effects of %d different messages of %d", bodies, n)
	}
	if ids := d.count(t, `SELECT count(DISTINCT message) FROM effect`); ids != all {
		t.Errorf("effects of %d messages of %d", ids, all)
	}
	if open := d.count(t, `SELECT count(*) FROM ackledger.message WHERE state <> 2`); open > 0 {
		t.Errorf("%d rows are not succeeded", open)
	}
	if meet := d.count(t, `SELECT count(*) FROM ackledger.segment a JOIN ackledger.segment b
		ON a.log = b.log AND a.first < b.first AND b.first < a.last`); meet > 0 {
		t.Errorf("%d segments lie in others", meet)
	}
}

// eventually polls until what holds, or fails with what is wrong.
func eventually(t *testing.T, patience time.Duration, what func() (wrong string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	wrong := what()
	for wrong != "" {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", patience, wrong)
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(wrong)
		}
		wrong = what()
	}
}
