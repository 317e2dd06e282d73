package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

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
	for !r.Health().Ready {
		time.Sleep(time.Millisecond)
	}
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
	for r.Health().Ready {
		time.Sleep(time.Millisecond)
	}
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
