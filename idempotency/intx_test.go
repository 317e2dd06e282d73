package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// openFile opens a ledger, and the table of effects beside it.
func openFile(t *testing.T) (*sqlite.Ledger, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effect (key TEXT)"); err != nil {
		t.Fatal(err)
	}
	return l, db
}

// Effect, result and success are one commit: of a run that fails after its effect nothing is left, and what is answered again is what
// was committed.
func TestInTx(t *testing.T) {
	t.Parallel()
	l, db := openFile(t)
	r := begin(t, l, idempotency.Options{})
	effects := func(key string) (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effect WHERE key = ?", key).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	do := func(key string, failure error, set bool) (idempotency.Outcome, error) {
		return r.Do(t.Context(), request(key), func(ctx context.Context) (idempotency.Result, error) {
			res := idempotency.Result{Status: 201, Body: []byte("charged")}
			return res, sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (?)", key); err != nil {
					return err
				}
				if set {
					if err := idempotency.SetResult(ctx, res); err != nil {
						return err
					}
				}
				return failure
			})
		})
	}
	if _, err := do("k", errBoom, true); !errors.Is(err, errBoom) || effects("k") != 0 {
		t.Errorf("a run that fails: %v, %d effects", err, effects("k"))
	}
	deadline := time.Now().Add(10 * time.Second)
	for again := range 3 {
		out, err := do("k", nil, true)
		for ; again == 0 && errors.Is(err, errBoom) && time.Now().Before(deadline); out, err = do("k", nil, true) {
		}
		if err != nil || out.Replayed != (again > 0) || string(out.Result.Body) != "charged" || out.Result.Status != 201 || effects("k") != 1 {
			t.Errorf("%+v, %v, %d effects", out, err, effects("k"))
		}
	}
	if out, err := do("unset", nil, false); err != nil || out.Replayed {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := do("unset", nil, false); err != nil || !out.Replayed || out.Result.Tombstone == "" || effects("unset") != 1 {
		t.Errorf("without a result: %+v, %v, %d effects", out, err, effects("unset"))
	}
	if err := idempotency.SetResult(t.Context(), idempotency.Result{}); !errors.Is(err, ledger.ErrNoAttempt) {
		t.Errorf("outside of a function: %v", err)
	}
}

// A function that returns nil although its transaction failed has not done the request: its effects are gone, whether it is run again
// or has failed for good.
func TestASwallowedFailureIsNoSuccess(t *testing.T) {
	t.Parallel()
	l, db := openFile(t)
	for _, attempts := range []int{1, 2} {
		r := begin(t, l, idempotency.Options{Attempts: attempts})
		key := fmt.Sprint("of ", attempts)
		q := request("swallowed")
		q.Caller = key
		out, err := r.Do(t.Context(), q, func(ctx context.Context) (idempotency.Result, error) {
			failed := sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (?)", key)
				return errors.Join(err, errBoom)
			})
			if !errors.Is(failed, errBoom) {
				t.Errorf("InTx: %v", failed)
			}
			return idempotency.Result{Body: []byte("done")}, nil
		})
		var effects int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effect WHERE key = ?", key).Scan(&effects); err != nil || effects != 0 {
			t.Errorf("%d effects, %v", effects, err)
		}
		if failed := as[*idempotency.FailedError](err); !errors.Is(err, errBoom) || (failed != nil) != (attempts == 1) {
			t.Errorf("attempt 1 of %d: %+v, %v", attempts, out, err)
		}
	}
}

// A transaction whose COMMIT was not answered: the ledger is asked, and what it says is what the request came to.
func TestACommitThatWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{Attempts: 1})
		for _, committed := range []bool{true, false} {
			runs := 0
			f := func(ctx context.Context) (idempotency.Result, error) {
				runs++
				res := idempotency.Result{Body: []byte("done")}
				a, _ := ledger.AttemptFrom(ctx)
				if err := errors.Join(a.Begin(), idempotency.SetResult(ctx, res)); err != nil {
					t.Error(err)
				}
				if committed {
					errs, err := a.Owner().Settle(ctx, []ledger.Settlement{{Ticket: a.Ticket(), Kind: ledger.Succeed, Result: a.Result()}})
					if err := errors.Join(append(errs, err)...); err != nil {
						t.Error(err)
					}
				}
				a.End(ledger.AttemptUnknown, errBoom)
				return res, errBoom
			}
			out, err := r.Do(t.Context(), request(fmt.Sprint(committed)), f)
			if committed && (err != nil || string(out.Result.Body) != "done") || !committed && (!errors.Is(err, errBoom) || as[*idempotency.FailedError](err) != nil) || runs != 1 {
				t.Errorf("committed %t: %+v, %v after %d runs", committed, out, err, runs)
			}
		}
	})
}

// Who knows the answer only at the commit says it then; what cannot be kept rolls back.
func TestSetResultFrom(t *testing.T) {
	t.Parallel()
	l, db := openFile(t)
	r := begin(t, l, idempotency.Options{})
	do := func(key string, late idempotency.Result) (idempotency.Outcome, error) {
		return r.Do(t.Context(), request(key), func(ctx context.Context) (idempotency.Result, error) {
			var now idempotency.Result
			if err := idempotency.SetResultFrom(ctx, func() (idempotency.Result, error) { return now, nil }); err != nil {
				return now, err
			}
			err := sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				now = late
				_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (?)", key)
				return err
			})
			return now, err
		})
	}
	for again := range 2 {
		if out, err := do("k", idempotency.Result{Body: []byte("late")}); err != nil || out.Replayed != (again == 1) || string(out.Result.Body) != "late" {
			t.Errorf("%+v, %v", out, err)
		}
	}
	large := idempotency.Result{Body: make([]byte, r.MaxResult())}
	if out, err := do("large", large); as[*idempotency.TooLargeError](err) == nil {
		t.Errorf("%d bytes: %+v, %v", len(large.Body), out.Replayed, err)
	}
	large.Instead = "too large to be kept"
	for again := range 2 {
		out, err := do("large-known", large)
		if err != nil || again == 1 && out.Result.Tombstone != large.Instead {
			t.Errorf("%d: %v, %q", again, err, out.Result.Tombstone)
		}
	}
	var effects int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effect").Scan(&effects); err != nil || effects != 2 {
		t.Errorf("%d effects, %v; want those of what was committed", effects, err)
	}
	if err := idempotency.SetResultFrom(t.Context(), nil); !errors.Is(err, ledger.ErrNoAttempt) {
		t.Errorf("outside of a function: %v", err)
	}
}

// A runner that ends lets what runs end, and takes nothing new.
func TestDrain(t *testing.T) {
	t.Parallel()
	l := memory.New()
	r, err := idempotency.New(l, idempotency.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, runs := answers("late", nil)
	if _, err := r.Do(t.Context(), request("before"), f); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("before Run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	until(t, func() bool { return r.Health().Ready })
	began, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
			close(began)
			<-release
			return f(ctx)
		})
		done <- err
	}()
	<-began
	cancel()
	until(t, func() bool { return !r.Health().Ready })
	if _, err := r.Do(t.Context(), request("after"), f); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("while it drains: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("what ran: %v", err)
	}
	if err := <-ended; err != nil || runs.Load() != 1 {
		t.Errorf("Run: %v, %d runs", err, runs.Load())
	}
	if _, err := r.Do(t.Context(), request("after"), f); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("after Run: %v", err)
	}
	again := begin(t, l, idempotency.Options{})
	if out, err := again.Do(t.Context(), request("k"), f); err != nil || !out.Replayed || string(out.Result.Body) != "late" {
		t.Errorf("another runner: %+v, %v", out, err)
	}
}

// What a function publishes is in the outbox once, however often its request comes, and not at all if it fails.
func TestPublish(t *testing.T) {
	t.Parallel()
	l, _ := openFile(t)
	r := begin(t, l, idempotency.Options{Attempts: 1})
	do := func(key string, failure error) error {
		_, err := r.Do(t.Context(), request(key), func(ctx context.Context) (idempotency.Result, error) {
			if err := consumer.Publish(ctx, ledger.Outgoing{Target: "t"}); !errors.Is(err, ledger.ErrNotInTx) {
				t.Errorf("outside of InTx: %v", err)
			}
			return idempotency.Result{}, sqlite.InTx(ctx, func(ctx context.Context, _ *sql.Tx) error {
				return errors.Join(consumer.Publish(ctx, ledger.Outgoing{Target: "t", ID: key}), failure)
			})
		})
		return err
	}
	for range 3 {
		if err := do("k", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := do("failing", errBoom); err == nil {
		t.Error("no error")
	}
	if list, err := l.ListOutbox(t.Context(), "t", 0, 10, false); err != nil || len(list) != 1 || list[0].ID != "k" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := consumer.Publish(t.Context(), ledger.Outgoing{Target: "t"}); !errors.Is(err, ledger.ErrNoAttempt) {
		t.Errorf("outside of a function: %v", err)
	}
}
