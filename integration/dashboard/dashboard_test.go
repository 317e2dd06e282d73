package dashboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestTheDashboardShowsWhatIsScraped: each query of the dashboard, run by Prometheus' engine, has a result with the labels
// that its legend names; a rate is above zero, after what it counts has happened between two scrapes. Each metric of
// ackledger is in a query. Two targets are scraped: workers on a ledger in memory, to which everything happens, and
// workers on PostgreSQL, whose ledger must fill the ledger's panels alone. The alerts' rules select what is there, too.
func TestTheDashboardShowsWhatIsScraped(t *testing.T) {
	t.Parallel()
	b := readBoard(t)
	m := memory.New()
	pg, pool := openPostgres(t)
	troubled, plain := newSite(t, "payments", m), newSite(t, "refunds", pg)
	plain.share()
	var history []map[string]string
	scrape := func() map[string]string {
		return map[string]string{"memory": troubled.scrape(), "postgres": plain.scrape()}
	}
	// round makes things happen, and then scrapes until the dashboard has nothing against it: what is counted behind a
	// handler comes a moment later.
	round := func(name string, quiet bool) {
		t.Helper()
		plain.work(name)
		troubled.trouble(m, name)
		crowd(t, pool)
		plain.sweep()
		troubled.sweep()
		if _, err := pool.Exec(t.Context(), "ANALYZE"); err != nil { // PostgreSQL estimates no rows before
			t.Fatal(err)
		}
		defer queue(t, pool)()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
			last := scrape()
			tried := append(slices.Clone(history), last, last)
			problems := look(t, b, tried, quiet)
			if len(problems) == 0 {
				history = tried
				return
			}
			if time.Now().After(deadline) {
				for _, p := range problems {
					t.Error(p)
				}
				t.FailNow()
			}
		}
	}
	// A counter that is not there yet has no rate when it appears: the first round makes them all.
	round("one", true)
	round("two", false)
	both, err := newMonitor(history)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range unseen(t.Context(), both, readAlerts(t)) {
		t.Error(problem)
	}
}

// look shows the dashboard with the scrapes of both targets, and its ledger's panels with those of PostgreSQL alone.
func look(t *testing.T, b *board, history []map[string]string, quiet bool) []string {
	t.Helper()
	both, err := newMonitor(history)
	if err != nil {
		t.Fatal(err)
	}
	alone := make([]map[string]string, len(history))
	for i, targets := range history {
		alone[i] = maps.Clone(targets)
		delete(alone[i], "memory")
	}
	single, err := newMonitor(alone)
	if err != nil {
		t.Fatal(err)
	}
	return append(b.problems(t.Context(), both, "ackledger_", quiet), b.problems(t.Context(), single, "ackledger_ledger_", quiet)...)
}

// crowd lets a call wait for a connection that is opened for it, and another give up on one.
func crowd(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	pool.Reset()
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := pool.Acquire(hurried); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("all connections are in hand, and there is another: %v", err)
	}
}

// queue lets a session wait for the lock that another holds on a row of the ledger, until the returned function is called.
func queue(t *testing.T, pool *pgxpool.Pool) (end func()) {
	t.Helper()
	const lock = "SELECT FROM ackledger.meta FOR UPDATE"
	holder, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := pool.Exec(t.Context(), lock)
		waited <- err
	}()
	return func() {
		if err := errors.Join(holder.Rollback(t.Context()), <-waited); err != nil {
			t.Error(err)
		}
	}
}

func openPostgres(t *testing.T) (*postgres.Ledger, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), services.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := postgres.Migrate(t.Context(), pool.Config().ConnConfig, ""); err != nil {
		t.Fatal(err)
	}
	l, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, pool
}
