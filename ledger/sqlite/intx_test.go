package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// run is one message in the hands of one owner, and the attempt of its handler.
type run struct {
	*testing.T
	l     *sqlite.Ledger
	app   *app
	o     ledger.Owner
	entry ledger.Entry
	claim ledger.Claim
	a     *ledger.Attempt
	ctx   context.Context // the handler's
}

func newRun(t *testing.T, c *sqlite.Config) *run {
	t.Helper()
	l, a := openAt(t, sqlite.Fresh(t), c)
	return claimOn(t, l, a, "m")
}

func claimOn(t *testing.T, l *sqlite.Ledger, a *app, id string) *run {
	t.Helper()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{T: t, l: l, app: a, o: o, entry: message(id)}
	claims, err := o.Claim(t.Context(), []ledger.Entry{r.entry})
	if err != nil || claims[0].Answer != ledger.Run {
		t.Fatalf("claim: %+v, %v", claims, err)
	}
	r.claim = claims[0]
	r.a = ledger.NewAttempt(o, r.claim.Ticket)
	r.ctx = ledger.WithAttempt(t.Context(), r.a)
	return r
}

func message(id string) ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Scope: "test", ID: []byte(id)}, Fingerprint: ledger.BodyFingerprint([]byte(id)),
		Delivery: []byte(id), Window: time.Hour}
}

// effect is a handler with one effect.
func effect(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effect (id) VALUES ('m')")
	return err
}

// want checks what is left behind: the attempt, the committed effects, the row.
func (r *run) want(attempt ledger.AttemptState, effectsWant int, row ledger.State) {
	r.Helper()
	if state, err := r.a.State(); state != attempt {
		r.Errorf("attempt: state %d (%v), want %d", state, err, attempt)
	}
	got, err := effects(r.Context(), r.app.main)
	if err != nil {
		r.Fatal(err)
	}
	if got["m"] != effectsWant {
		r.Errorf("%d effects, want %d", got["m"], effectsWant)
	}
	rec, err := r.l.Get(r.Context(), r.entry.Key)
	if err != nil {
		r.Fatal(err)
	}
	if rec.State != row {
		r.Errorf("the row is %v, want %v", rec.State, row)
	}
}

// settle succeeds the claim outside of InTx.
func (r *run) settle() error {
	r.Helper()
	errs, err := r.o.Settle(r.Context(), []ledger.Settlement{{Ticket: r.claim.Ticket, Kind: ledger.Succeed}})
	return errors.Join(append(errs, err)...)
}

// A user's handler commits or rolls back by himself: without a guard the effects would be there without the success,
// and the handler would run again.
func TestPitfall85_UserCommits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(context.Context, *sql.Tx) error
		want error
	}{
		"Commit":   {func(_ context.Context, tx *sql.Tx) error { return ignore(tx.Commit()) }, sqlite.ErrRefused},
		"Rollback": {func(_ context.Context, tx *sql.Tx) error { return ignore(tx.Rollback()) }, sqlite.ErrRefused},
		"ROLLBACK BEGIN as text": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "ROLLBACK; BEGIN IMMEDIATE")
			return err
		}, sqlite.ErrEnded},
		"ROLLBACK as text": {func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "ROLLBACK")
			return err
		}, sqlite.ErrEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, nil)
			err := sqlite.InTx(r.ctx, func(ctx context.Context, tx *sql.Tx) error {
				return errors.Join(effect(ctx, tx), c.end(ctx, tx))
			})
			if !errors.Is(err, c.want) {
				t.Errorf("InTx: %v, want %v", err, c.want)
			}
			r.want(ledger.AttemptOpen, 0, ledger.Pending)
			if err := r.settle(); err != nil { // the file is free again, and the message still ours
				t.Errorf("settle: %v", err)
			}
		})
	}
}

// ignore is what a handler does that takes no notice.
func ignore(error) error { return nil }

// What a COMMIT that was sent as text committed cannot be undone; it is told, and nothing behind it is committed.
func TestPitfall85_UserCommitsAsText(t *testing.T) {
	t.Parallel()
	r := newRun(t, nil)
	err := sqlite.InTx(r.ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "COMMIT; BEGIN IMMEDIATE")
		return errors.Join(err, effect(ctx, tx))
	})
	if !errors.Is(err, sqlite.ErrEnded) {
		t.Errorf("InTx: %v, want %v", err, sqlite.ErrEnded)
	}
	r.want(ledger.AttemptOpen, 0, ledger.Pending)
}

// The message is taken over while its old owner's handler is on its way into InTx.
func TestPitfall85_LeaseLost(t *testing.T) {
	t.Parallel()
	r := newRun(t, nil)
	other, err := r.l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.app.owners.ExecContext(t.Context(), "UPDATE ackledger_owner SET fate = 3 WHERE id = ?", r.o.ID()); err != nil {
		t.Fatal(err)
	}
	claims, err := other.Claim(t.Context(), []ledger.Entry{r.entry})
	if err != nil || claims[0].Answer != ledger.Run || !claims[0].TookOver {
		t.Fatalf("take-over: %+v, %v", claims, err)
	}
	if err := sqlite.InTx(r.ctx, effect); !ledger.IsLost(err) {
		t.Errorf("InTx: %v, want ErrLost", err)
	}
	r.want(ledger.AttemptLost, 0, ledger.Pending)
}

// An error of the handler after InTx has committed is not InTx's: the attempt says that the success is there.
func TestPitfall85_ErrorAfterCommit(t *testing.T) {
	t.Parallel()
	r := newRun(t, nil)
	if err := sqlite.InTx(r.ctx, effect); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.InTx(r.ctx, effect); !errors.Is(err, ledger.ErrSettled) {
		t.Errorf("second InTx: %v, want ErrSettled", err)
	}
	errs, err := r.o.Settle(t.Context(), []ledger.Settlement{{Ticket: r.claim.Ticket, Kind: ledger.Release, Count: true}})
	if err != nil || errs[0] != nil {
		t.Errorf("a release behind the commit: %v, %v; it holds already", errs, err)
	}
	r.want(ledger.AttemptSucceeded, 1, ledger.Succeeded)
}

// Another store's attempt, and a context that is no handler's.
func TestInTxIsForOwnAttempts(t *testing.T) {
	t.Parallel()
	r := newRun(t, nil)
	stranger, err := memory.New().Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	foreign := ledger.WithAttempt(t.Context(), ledger.NewAttempt(stranger, r.claim.Ticket))
	if err := sqlite.InTx(foreign, effect); err == nil {
		t.Error("InTx took another store's attempt")
	}
	if err := sqlite.InTx(t.Context(), effect); !errors.Is(err, ledger.ErrNoAttempt) {
		t.Errorf("InTx: %v, want ErrNoAttempt", err)
	}
	r.want(ledger.AttemptOpen, 0, ledger.Pending)
}

// The handler outlives the limit, deaf to its context: the file must become free for the others.
func TestInTxTimeLimit(t *testing.T) {
	t.Parallel()
	r := newRun(t, &sqlite.Config{TxLimit: time.Second})
	err := sqlite.InTx(r.ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := effect(context.WithoutCancel(ctx), tx); err != nil {
			return err
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), sqlite.ErrTimeLimit) {
			t.Errorf("the handler's context ended with %v", context.Cause(ctx))
		}
		_, err := r.app.main.ExecContext(t.Context(), "DELETE FROM effect") // waits until the limit has rolled back
		return err
	})
	if !errors.Is(err, sqlite.ErrTimeLimit) {
		t.Errorf("InTx: %v, want %v", err, sqlite.ErrTimeLimit)
	}
	r.want(ledger.AttemptOpen, 0, ledger.Pending)
}

// A statement of the handler is interrupted by its context, which makes SQLite roll back by itself; the handler takes
// no notice and goes on.
func TestInTxInterrupted(t *testing.T) {
	t.Parallel()
	r := newRun(t, nil)
	err := sqlite.InTx(r.ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := effect(ctx, tx); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, time.Second) // it has begun by then
		defer cancel()
		_, err := tx.ExecContext(short, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) INSERT INTO effect (id) SELECT 'x' FROM n`)
		if err == nil {
			t.Error("an endless statement ended")
		}
		return nil
	})
	if !errors.Is(err, sqlite.ErrEnded) {
		t.Errorf("InTx: %v, want %v", err, sqlite.ErrEnded)
	}
	r.want(ledger.AttemptOpen, 0, ledger.Pending)
}

// An InTx that lasts longer than a lease. SQLite has no REPEATABLE READ and needs none: BEGIN IMMEDIATE is alone, so the
// row cannot change under it, and it commits even if its owner is declared dead meanwhile.
func TestPitfall106_LongerThanALease(t *testing.T) {
	t.Parallel()
	r := newRun(t, nil)
	other, err := r.l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlite.InTx(r.ctx, func(ctx context.Context, tx *sql.Tx) error {
		var before int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM effect").Scan(&before); err != nil { // a snapshot
			return err
		}
		if _, err := r.app.owners.ExecContext(ctx, "UPDATE ackledger_owner SET fate = 3 WHERE id = ?", r.o.ID()); err != nil {
			return err
		}
		claimsAreBusy(t, other)
		return effect(ctx, tx)
	})
	if err != nil {
		t.Errorf("InTx: %v", err)
	}
	r.want(ledger.AttemptSucceeded, 1, ledger.Succeeded)
	if claims, err := other.Claim(t.Context(), []ledger.Entry{r.entry}); err != nil || claims[0].Answer != ledger.Done {
		t.Errorf("claim by another: %+v, %v; want Done", claims, err)
	}
}

// A statement of the handler that is deaf to everything goes on when the limit passes: it is interrupted, since the
// rollback waits for it, and the next InTx for the rollback.
func TestInTxLimitEndsAStuckStatement(t *testing.T) {
	t.Parallel()
	r := newRun(t, &sqlite.Config{TxLimit: 200 * time.Millisecond})
	err := sqlite.InTx(r.ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(context.WithoutCancel(ctx),
			`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n`)
		return err
	})
	if !errors.Is(err, sqlite.ErrTimeLimit) {
		t.Errorf("InTx: %v, want %v", err, sqlite.ErrTimeLimit)
	}
	r.want(ledger.AttemptOpen, 0, ledger.Pending)
	if err := r.settle(); err != nil { // the file is free
		t.Errorf("settle: %v", err)
	}
}

// One long InTx held the only write lock, everybody's beats waited for it, and all owners were declared dead.
func TestPitfall112_LongTransactionStopsNoBeat(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second // the two would declare each other dead if one stalled for so long
	path := sqlite.Fresh(t)
	l, a := openAt(t, path, nil)
	second, err := sqlite.Open(t.Context(), path, nil) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Close() })
	r := claimOn(t, l, a, "m")
	var owners []ledger.Owner
	for _, on := range []*sqlite.Ledger{l, second} {
		o, err := on.Join(t.Context(), lease)
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, o)
	}
	err = sqlite.InTx(r.ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := effect(ctx, tx); err != nil {
			return err
		}
		var wg sync.WaitGroup
		for _, o := range owners {
			wg.Go(func() { beatFor(t, o, lease+lease/2, lease/12) })
		}
		wg.Wait()
		claimsAreBusy(t, owners[0])
		claimsAreBusy(t, owners[1])
		return nil
	})
	if err != nil {
		t.Errorf("InTx: %v", err)
	}
	r.want(ledger.AttemptSucceeded, 1, ledger.Succeeded)
	for _, o := range owners {
		if _, err := o.Beat(t.Context()); err != nil {
			t.Errorf("owner %s: %v", o.ID(), err)
		}
	}
}

// beatFor beats for a while; a beat that fails or takes as long as a lease is the fault.
func beatFor(t *testing.T, o ledger.Owner, long, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); <-tick.C {
		if _, err := o.Beat(t.Context()); err != nil {
			t.Errorf("owner %s: %v", o.ID(), err)
		}
	}
}

// claimsAreBusy checks what a claim and a settle answer while the write lock is taken.
func claimsAreBusy(t *testing.T, o ledger.Owner) {
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	claims, err := o.Claim(ctx, []ledger.Entry{message("x"), {}, message("y")})
	if err != nil || len(claims) != 3 || claims[0].Answer != ledger.Busy || claims[2].Answer != ledger.Busy || claims[1].Err == nil {
		t.Errorf("claim: %+v, %v; want Busy, a refusal, Busy", claims, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	errs, err := o.Settle(ctx, []ledger.Settlement{{Ticket: ledger.NewTicket([16]byte{1}, 1), Kind: ledger.Succeed}, {}})
	if err != nil || len(errs) != 2 || !errors.Is(errs[0], sqlite.ErrBusy) || ledger.Unknown(errs[0]) || ledger.IsLost(errs[0]) {
		t.Fatalf("settle: %v, %v, want %v for the first", errs, err, sqlite.ErrBusy)
	}
	if _, ok := errors.AsType[*ledger.InvalidError](errs[1]); !ok {
		t.Errorf("settle: %v, want a refusal", errs[1])
	}
}
