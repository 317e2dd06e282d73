package postgres_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// oldWorker claims, settles, fails and beats in a loop, by the statements of version 1 in short.
type oldWorker struct {
	pool  *pgxpool.Pool
	id    int64
	done  atomic.Int64
	ended chan error
	stop  context.CancelFunc
}

const (
	oldJoin = `INSERT INTO ackledger.owner (id, lease_end, joined, host) VALUES ($1, now() + interval '1 minute', now(), 'old')`
	oldBeat = `UPDATE ackledger.owner SET lease_end = now() + interval '1 minute' WHERE id = $1 AND fate = 1`
	// oldClaim is for messages that are new.
	oldClaim = `INSERT INTO ackledger.message (token, at, expiry, owner, scope, state, attempts, crashes, key, fingerprint, id)
SELECT 1, now(), now() + interval '1 hour', o.id, s.id, 1, 0, 0, k.key, k.print, k.id
FROM ackledger.owner o, ackledger.scope s, unnest($2::uuid[], $3::uuid[], $4::bytea[]) k(key, print, id)
WHERE o.id = $1 AND o.fate = 1 AND s.name = 'scope'`
	oldSettle = `UPDATE ackledger.message SET state = $3, owner = NULL WHERE key = $2 AND token = 1 AND state = 1 AND owner = $1`
)

// joinOld makes an owner of an earlier version.
func joinOld(t *testing.T, b *bench) *oldWorker {
	t.Helper()
	b.exec(t, `INSERT INTO ackledger.scope (name) VALUES ('scope') ON CONFLICT DO NOTHING`)
	w := &oldWorker{pool: b.pool, id: time.Now().UnixNano(), ended: make(chan error, 1)}
	b.exec(t, oldJoin, w.id)
	return w
}

func startOld(t *testing.T, b *bench) *oldWorker {
	t.Helper()
	w := joinOld(t, b)
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	go func() {
		for ctx.Err() == nil {
			if err := w.work(context.WithoutCancel(ctx)); err != nil {
				w.ended <- err
				return
			}
		}
		w.ended <- nil
	}()
	t.Cleanup(stop)
	return w
}

// expect runs a statement that must change so many rows.
func (w *oldWorker) expect(ctx context.Context, rows int64, sql string, args ...any) error {
	tag, err := w.pool.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() != rows {
		err = fmt.Errorf("%d rows, want %d: %w", tag.RowsAffected(), rows, ledger.ErrLost)
	}
	return err
}

func (w *oldWorker) claim(ctx context.Context, ids ...string) error {
	var keys, prints []any
	var raw [][]byte
	for _, id := range ids {
		e := entry(id)
		keys, prints, raw = append(keys, pgKey(e.Key)), append(prints, pgUUID(e.Fingerprint)), append(raw, []byte(id))
	}
	return w.expect(ctx, int64(len(ids)), oldClaim, w.id, keys, prints, raw)
}

func (w *oldWorker) settle(ctx context.Context, id string, state ledger.State) error {
	return w.expect(ctx, 1, oldSettle, w.id, pgKey(entry(id).Key), int16(state))
}

func (w *oldWorker) beat(ctx context.Context) error { return w.expect(ctx, 1, oldBeat, w.id) }

func (w *oldWorker) work(ctx context.Context) error {
	n := w.done.Load()
	s, f, r := fmt.Sprint("s", n), fmt.Sprint("f", n), fmt.Sprint("r", n)
	if err := w.claim(ctx, s, f, r); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	for id, state := range map[string]ledger.State{s: ledger.Succeeded, f: ledger.Failed, r: ledger.Pending} {
		if err := w.settle(ctx, id, state); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	if err := w.beat(ctx); err != nil {
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

// TestPitfall102_RollingDeploy: a migration stopped the workers that were still running, or lost what was there. Workers
// of version 1 go on through the migrations up to version 3. That to version 4 ends their owners' lives, since they would
// claim rows beside ranges: they finish what they have, claim nothing more, and every row is as it was.
func TestPitfall102_RollingDeploy(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 1); err != nil {
		t.Fatal(err)
	}
	b := openBench(t, db.URL, variant{})
	w := startOld(t, b)
	w.reach(t, 20)
	if err := postgres.MigrateTo(t.Context(), conn, 3); err != nil {
		t.Fatal(err)
	}
	w.reach(t, w.done.Load()+20)
	if _, err := b.Join(t.Context(), time.Minute); !ledger.Unusable(err) || !strings.Contains(err.Error(), "postgres.Migrate") {
		t.Fatalf("a new worker before the migration: %v", err)
	}
	before := map[string]ledger.Record{}
	for _, id := range []string{"s1", "f1", "r1", "s9", "f9", "r9"} {
		if before[id], err = b.Get(t.Context(), entry(id).Key); err != nil {
			t.Fatal(err)
		}
	}
	slow := joinOld(t, b)
	if err := slow.claim(t.Context(), "slow", "slower"); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	if err := <-w.ended; !ledger.IsLost(err) {
		t.Errorf("an old worker after the migration: %v", err)
	}
	if err := slow.settle(t.Context(), "slow", ledger.Succeeded); err != nil {
		t.Errorf("what an old worker had claimed: %v", err)
	}
	b.ResetConns() // the type of a column has changed
	for id, want := range before {
		if got, err := b.Get(t.Context(), entry(id).Key); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; was %+v", id, got, err, want)
		}
	}
	o := join(t, b, time.Minute)
	claimOne(t, o, entry("s1"), ledger.Done)
	claimOne(t, o, entry("slow"), ledger.Done)
	claimOne(t, o, entry("r1"), ledger.Run)
	if c := claimOne(t, o, entry("slower"), ledger.Run); !c.TookOver || c.Crashes != 0 {
		t.Errorf("what an old worker had not finished: %+v", c)
	}
	if r, err := b.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Removed() != 0 || r.Rows < 100 {
		t.Errorf("sweep: %+v, %v", r, err)
	}
	old := openBench(t, db.URL, variant{})
	old.PlayVersion(1)
	if _, err := old.Join(t.Context(), time.Minute); !ledger.Unusable(err) || !strings.Contains(err.Error(), "deploy a newer one") {
		t.Errorf("an old worker that is not served any more: %v", err)
	}
}

// TestFromFour: version 5 ends the lives of owners before it, which lock logs in another way, refuses their programs, and
// keeps what they have archived.
func TestFromFour(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 4); err != nil {
		t.Fatal(err)
	}
	b := openBench(t, db.URL, variant{})
	old := joinOld(t, b)
	e := records("scope", 2, 17, 1)[0]
	b.exec(t, `INSERT INTO ackledger.message (token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id, failed_delivery)
		SELECT 3, now(), now() + interval '1 hour', id, 3, 0, 0, $1, $2, $3, $4 FROM ackledger.scope`,
		pgKey(e.Key), pgUUID(e.Fingerprint), e.Key.ID, e.Delivery)
	position := fmt.Sprintf(`{"log":"%s","epoch":3,"offset":17,"prev":11}`, base64.StdEncoding.EncodeToString([]byte(e.Key.Pos.Log)))
	b.exec(t, `INSERT INTO ackledger.archive (token, sent_at, at, expiry, scope, attempts, published, key, fingerprint, delivery, id, kind,
		source, grp, position, body) SELECT 3, now(), now(), now() + interval '1 day', id, 1, true, $1, $2, $4, $3, 'error', 's', 'g', $5, 'b'
		FROM ackledger.scope`, pgKey(e.Key), pgUUID(e.Fingerprint), e.Key.ID, e.Delivery, []byte(position))
	for range 2 { // it may be repeated
		if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.beat(t.Context()); !ledger.IsLost(err) {
		t.Errorf("the beat of an owner of version 4: %v", err)
	}
	four := openBench(t, db.URL, variant{})
	four.PlayVersion(4)
	if _, err := four.Join(t.Context(), time.Minute); !ledger.Unusable(err) || !strings.Contains(err.Error(), "deploy a newer one") {
		t.Errorf("a program of version 4: %v", err)
	}
	n := 0
	for d, err := range b.DeadLetters(t.Context(), ledger.Filter{Scope: "scope", Body: true}) {
		if n++; err != nil || d.Key.Sum() != e.Key.Sum() || d.Key.Pos == nil || d.Key.Pos.Prev != 11 || string(d.Body) != "b" {
			t.Errorf("%+v, %v", d, err)
		}
	}
	claimOne(t, join(t, b, time.Minute), e, ledger.Done)
	if n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// TestFromFive: workers of version 5 go on, and new ones of it are let in, beside version 12.
func TestFromFive(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 5); err != nil {
		t.Fatal(err)
	}
	b := openBench(t, db.URL, variant{})
	old := joinOld(t, b)
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	if err := old.beat(t.Context()); err != nil {
		t.Errorf("the beat of an owner of version 5: %v", err)
	}
	if err := old.work(t.Context()); err != nil {
		t.Errorf("claims and settles of an owner of version 5: %v", err)
	}
	five := openBench(t, db.URL, variant{})
	five.PlayVersion(5)
	join(t, five, time.Minute)
	claimsOf(t, join(t, b, time.Minute), records("s", 0, 0, 3), ledger.Run)
	for _, version := range []int64{5, 7, 9, 10, 11, 12} { // and back
		if err := postgres.MigrateTo(t.Context(), conn, version); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRowsBeforeRanges: records that were claimed with rows by workers before version 4 stay with their rows: the
// stretch that they lie in is bound to rows, whatever claims there next.
func TestRowsBeforeRanges(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	all := records("s", 0, 90, 100)
	b.exec(t, `INSERT INTO ackledger.scope (name) VALUES ('s') ON CONFLICT DO NOTHING`)
	for i := 10; i < 30; i += 2 {
		b.exec(t, `INSERT INTO ackledger.message (token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id)
			SELECT 1, now(), now() + interval '1 hour', id, 2, 0, 0, $1, $2, $3 FROM ackledger.scope WHERE name = 's'`,
			pgKey(all[i].Key), pgUUID(all[i].Fingerprint), all[i].Key.ID)
	}
	claims, err := o.Claim(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		want := ledger.Run
		if i >= 10 && i < 30 && i%2 == 0 {
			want = ledger.Done
		}
		if c.Answer != want {
			t.Errorf("offset %d: %v, want %v", 90+i, c.Answer, want)
		}
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message"); n != 19 { // 100, 102 ... 118, and those between
		t.Errorf("%d rows", n)
	}
}
