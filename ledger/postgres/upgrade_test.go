package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/integration/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// oldWorker claims, settles, fails and beats in a loop, as a worker of an earlier version.
type oldWorker struct {
	done  atomic.Int64
	ended chan error
	stop  context.CancelFunc
}

func startOld(t *testing.T, b *bench) *oldWorker {
	t.Helper()
	o := join(t, b, time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	w := &oldWorker{ended: make(chan error, 1), stop: stop}
	go func() {
		for ctx.Err() == nil {
			if err := w.work(context.WithoutCancel(ctx), o); err != nil {
				w.ended <- err
				return
			}
		}
		w.ended <- nil
	}()
	t.Cleanup(stop)
	return w
}

func (w *oldWorker) work(ctx context.Context, o ledger.Owner) error {
	n := w.done.Load()
	entries := []ledger.Entry{entry(fmt.Sprint("s", n)), entry(fmt.Sprint("f", n)), entry(fmt.Sprint("r", n))}
	claims, err := o.Claim(ctx, entries)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	for i, c := range claims {
		if c.Answer == ledger.Busy { // the migration holds the table for a moment
			return nil
		}
		if c.Answer != ledger.Run {
			return fmt.Errorf("claim %d: %+v", i, c)
		}
	}
	errs, err := o.Settle(ctx, []ledger.Settlement{
		{Ticket: claims[0].Ticket, Kind: ledger.Succeed},
		{Ticket: claims[1].Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: entries[1].Key, Delivery: entries[1].Delivery, Keep: time.Hour}},
		{Ticket: claims[2].Ticket, Kind: ledger.Release},
	})
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("settle %d: %w", i, err)
		}
	}
	if _, err := o.Beat(ctx); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	w.done.Add(1)
	return nil
}

// reach waits until it has done so many rounds.
func (w *oldWorker) reach(t *testing.T, n int64) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for w.done.Load() < n {
		select {
		case err := <-w.ended:
			t.Fatalf("the old worker ended after %d rounds: %v", w.done.Load(), err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the old worker has done %d rounds, want %d", w.done.Load(), n)
		}
	}
}

// firstRows shows everything that the first schema had of a message.
func firstRows(t *testing.T, b *bench, id string) (text string) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `SELECT concat(
		(SELECT row(m.at, m.expiry, m.owner, m.due, m.token, m.scope, m.state, m.attempts, m.crashes, m.key, m.fingerprint, m.id,
			m.generation, m.result, m.errors, m.failed_delivery)::text FROM ackledger.message m WHERE m.id = $1::bytea),
		(SELECT row(a.token, a.sent_at, a.at, a.expiry, a.scope, a.attempts, a.generation, a.published, a.key, a.fingerprint,
			a.delivery, a.id, a.kind, a.source, a.grp, a.position, a.errors, a.headers, a.body)::text
			FROM ackledger.archive a WHERE a.id = $1::bytea))`, []byte(id)).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPitfall102_RollingDeploy: a migration stopped the workers that were still running, or lost what was there. Migrate
// first: workers of the version before go on through it, new ones start beside them, and every row is as it was.
func TestPitfall102_RollingDeploy(t *testing.T) {
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 1); err != nil {
		t.Fatal(err)
	}
	early := openBench(t, db.URL, variant{})
	if _, err := early.Join(t.Context(), time.Minute); !ledger.Unusable(err) || !strings.Contains(err.Error(), "postgres.Migrate") {
		t.Fatalf("a new worker before the migration: %v", err)
	}
	old := openBench(t, db.URL, variant{})
	old.PlayVersion(1)
	w := startOld(t, old)
	w.reach(t, 20)
	before := map[string]string{}
	for _, id := range []string{"s1", "f1", "r1", "s9", "f9", "r9"} {
		before[id] = firstRows(t, old, id)
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	w.reach(t, w.done.Load()+20)
	for id, want := range before {
		if got := firstRows(t, early, id); got != want || len(got) < 50 {
			t.Errorf("%s: %s; was %s", id, got, want)
		}
		rec, err := early.Get(t.Context(), entry(id).Key)
		if err != nil || len(rec.Archived) > 0 != (id[0] == 'f') {
			t.Errorf("%s: %+v, %v", id, rec, err)
		}
	}
	o := join(t, early, time.Minute)
	claimOne(t, o, entry("s1"), ledger.Done)
	claimOne(t, o, entry("f1"), ledger.Done)
	claimOne(t, o, entry("r1"), ledger.Run)
	join(t, old, time.Minute) // a restart of the old version, before its turn came
	if r, err := early.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Removed() != 0 || r.Rows < 100 {
		t.Errorf("sweep: %+v, %v", r, err)
	}
	w.reach(t, w.done.Load()+5)
	w.stop()
	if err := <-w.ended; err != nil {
		t.Error(err)
	}
	early.exec(t, "UPDATE ackledger.meta SET oldest_worker = 2") // as a later migration will
	if _, err := old.Join(t.Context(), time.Minute); !ledger.Unusable(err) || !strings.Contains(err.Error(), "deploy a newer one") {
		t.Errorf("an old worker that is not served any more: %v", err)
	}
}
