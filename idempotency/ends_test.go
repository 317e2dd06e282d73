package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// A long error is kept in part: as much as 4 KiB of its text, which a repetition gets.
func TestALongFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{})
		text := strings.Repeat("x", 4<<10)
		f, _ := answers("", consumer.Terminal(errors.New(text+"y")))
		for again := range 2 {
			_, err := r.Do(t.Context(), request("k"), f)
			if failed := as[*idempotency.FailedError](err); failed == nil || failed.Text != text+"y"[:1-again] {
				t.Errorf("%d: %d bytes", again, len(err.Error()))
			}
		}
	})
}

// A function that ends its goroutine has failed, and runs again.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{})
		_, err := r.Do(t.Context(), request("k"), func(context.Context) (idempotency.Result, error) {
			runtime.Goexit()
			return idempotency.Result{}, nil
		})
		if err == nil || !strings.Contains(err.Error(), "runtime.Goexit") || as[*idempotency.FailedError](err) != nil {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Second)
		f, _ := answers("", nil)
		if out, err := r.Do(t.Context(), request("k"), f); err != nil || out.Attempt != 2 {
			t.Errorf("again: %+v, %v", out, err)
		}
	})
}

// A function that returns while its transaction runs has failed: what it has done there is not committed.
func TestATransactionThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, memory.New(), idempotency.Options{Attempts: 1})
		_, err := r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
			a, _ := ledger.AttemptFrom(ctx)
			return idempotency.Result{}, a.Begin()
		})
		if as[*idempotency.FailedError](err) == nil || !strings.Contains(err.Error(), "its transaction was still running") {
			t.Errorf("%v", err)
		}
	})
}

// Who has lost the lease is told that it is not known what came of the request, or what whoever took it over has answered.
func TestALeaseThatIsLost(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := memory.New()
			stale, fresh := begin(t, l, idempotency.Options{}), begin(t, l, idempotency.Options{})
			f, runs := answers("fresh", nil)
			out, err := stale.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
				a, _ := ledger.AttemptFrom(ctx)
				if !taken {
					l.Drop(keyOf("k"))
				} else if l.Declare(a.Owner().ID()) {
					if _, err := fresh.Do(t.Context(), request("k"), f); err != nil {
						t.Error(err)
					}
				}
				return idempotency.Result{Body: []byte("stale")}, nil
			})
			if taken && (err != nil || !out.Replayed || string(out.Result.Body) != "fresh") || !taken && !errors.Is(err, idempotency.ErrUnknown) {
				t.Errorf("taken over is %t: %+v, %v", taken, out, err)
			}
			time.Sleep(time.Minute)
			if out, err := fresh.Do(t.Context(), request("k"), f); err != nil || string(out.Result.Body) != "fresh" || out.Replayed != taken || runs.Load() != 1 {
				t.Errorf("afterwards: %+v, %v", out, err)
			}
		})
	}
}

// keyOf is the ledger's key of a request.
func keyOf(key string) ledger.Key {
	return ledger.Key{Scope: "payments", ID: []byte("shop%207/" + key)}
}

// A request whose processes have crashed five times has failed for good.
func TestCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		for range 5 {
			o, err := l.Join(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			claims, err := o.Claim(t.Context(), []ledger.Entry{{
				Key: keyOf("k"), Fingerprint: ledger.BodyFingerprint([]byte("body")), Delivery: []byte("d"), Window: time.Hour, Solo: true,
			}})
			if err != nil || claims[0].Answer != ledger.Run || !l.Declare(o.ID()) {
				t.Fatalf("%+v, %v", claims, err)
			}
		}
		r := begin(t, l, idempotency.Options{})
		if _, err := r.Do(t.Context(), request("k"), never(t)); as[*idempotency.FailedError](err) == nil || !strings.Contains(err.Error(), "crashed 5 times") {
			t.Errorf("%v", err)
		}
		if out, err := r.Do(t.Context(), request("k"), never(t)); as[*idempotency.FailedError](err) == nil || !out.Replayed {
			t.Errorf("again: %+v, %v", out, err)
		}
	})
}

// Values of the caller's context reach the function, and its end does not; those of the attempt come first.
func TestTheFunctionsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		r := begin(t, memory.New(), idempotency.Options{Timeout: time.Hour})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		_, err := r.Do(ctx, request("k"), func(ctx context.Context) (idempotency.Result, error) {
			cancel()
			time.Sleep(time.Minute)
			deadline, is := ctx.Deadline()
			if ctx.Err() != nil || ctx.Value(key{}) != "value" || !is || time.Until(deadline) != 59*time.Minute {
				t.Errorf("%v, %v, until %s (%t)", ctx.Err(), ctx.Value(key{}), deadline, is)
			}
			return idempotency.Result{}, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A transaction that commits without its result is told to operators; one with it is not.
func TestACommitWithoutAResultIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.ErrorLevel)
		r := begin(t, memory.New(), idempotency.Options{Logger: zap.New(core)})
		for n, set := range []bool{true, false} {
			_, err := r.Do(t.Context(), request([]string{"set", "unset"}[n]), func(ctx context.Context) (idempotency.Result, error) {
				a, _ := ledger.AttemptFrom(ctx)
				if err := a.Begin(); err != nil {
					return idempotency.Result{}, err
				}
				if set {
					if err := idempotency.SetResult(ctx, idempotency.Result{Status: 200}); err != nil {
						return idempotency.Result{}, err
					}
				}
				errs, err := a.Owner().Settle(ctx, []ledger.Settlement{{Ticket: a.Ticket(), Kind: ledger.Succeed, Result: a.Result()}})
				a.End(ledger.AttemptSucceeded, nil)
				return idempotency.Result{}, errors.Join(append(errs, err)...)
			})
			if err != nil || logs.Len() != n {
				t.Errorf("with a result %t: %v, %d lines", set, err, logs.Len())
			}
		}
	})
}

// Two bodies of one key at once, of which neither runs yet: one runs, and the other is told in the end that it is a mismatch.
func TestTwoBodiesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		r := begin(t, l, idempotency.Options{Wait: 10 * time.Second})
		l.FailBefore(func(_ context.Context, op memory.Op) error {
			if op == memory.Claim {
				time.Sleep(time.Second) // both have asked by then
			}
			return nil
		})
		ended := make(chan error, 2)
		for _, body := range []string{"a", "b"} {
			q := request("k")
			q.Body = []byte(body)
			go func() {
				_, err := r.Do(t.Context(), q, func(context.Context) (idempotency.Result, error) {
					time.Sleep(30 * time.Second)
					return idempotency.Result{}, nil
				})
				ended <- err
			}()
		}
		if err := <-ended; !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("the other: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("who ran: %v", err)
		}
	})
}

// What something else has stored under the request's key is no answer, and is not run again.
func TestAForeignResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		for n, stored := range []string{"ok", "{}\n", `{"v":2}` + "\n"} {
			key := strings.Repeat("k", n+1)
			o, err := l.Join(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: keyOf(key), Fingerprint: ledger.BodyFingerprint([]byte("body")), Delivery: []byte("d"), Window: time.Hour}})
			if err != nil {
				t.Fatal(err)
			}
			errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed, Result: []byte(stored)}})
			if err := errors.Join(append(errs, err)...); err != nil {
				t.Fatal(err)
			}
			r := begin(t, l, idempotency.Options{})
			if _, err := r.Do(t.Context(), request(key), never(t)); err == nil || !strings.Contains(err.Error(), "is not one of a runner's") {
				t.Errorf("%q: %v", stored, err)
			}
		}
	})
}

// An answer that cannot be made when the transaction commits rolls it back.
func TestAResultThatCannotBeMade(t *testing.T) {
	t.Parallel()
	l, db := openFile(t)
	r := begin(t, l, idempotency.Options{})
	_, err := r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
		if err := idempotency.SetResultFrom(ctx, func() (idempotency.Result, error) { return idempotency.Result{}, errBoom }); err != nil {
			t.Error(err)
		}
		return idempotency.Result{}, sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES ('k')")
			return err
		})
	})
	var effects int
	if bad := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effect").Scan(&effects); bad != nil || effects != 0 || !errors.Is(err, errBoom) {
		t.Errorf("%v, %d effects, %v", err, effects, bad)
	}
}

// A function that outlasts the drain is named by Run, and whoever waits for it is told that its end is not known. A runner that was paused
// and has ended is not paused.
func TestADrainThatIsTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := idempotency.New(memory.New(), idempotency.Options{Drain: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended, done := make(chan error, 1), make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		until(t, func() bool { return r.Health().Ready })
		r.Pause()
		r.Resume()
		go func() {
			_, err := r.Do(t.Context(), request("k"), func(context.Context) (idempotency.Result, error) {
				time.Sleep(time.Hour)
				return idempotency.Result{}, nil
			})
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "idempotency: ") || !strings.Contains(err.Error(), "drain") {
			t.Errorf("Run: %v", err)
		}
		if err := <-done; !errors.Is(err, idempotency.ErrUnknown) {
			t.Errorf("who waited: %v", err)
		}
		if _, err := r.Do(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("afterwards: %v", err)
		}
		if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs once") {
			t.Errorf("again: %v", err)
		}
		time.Sleep(time.Hour) // the function ends
	})
}

// A lookup whose ledger fails says so.
func TestAnAuditThatFails(t *testing.T) {
	t.Parallel()
	r, err := idempotency.New(memory.New(), idempotency.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if list, err := r.Audit(ctx, request("k")); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "idempotency: Audit: ") {
		t.Errorf("%+v, %v", list, err)
	}
}

// The largest result that is spilled, and the smallest that is not.
func TestTheSpillsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := memory.New(), newShelf()
		r := begin(t, l, idempotency.Options{Spill: s})
		f, _ := large("word")
		if _, err := r.Do(t.Context(), request("k"), f); err != nil || len(s.names()) != 1 {
			t.Fatalf("%v, %d are spilled", err, len(s.names()))
		}
		size := len(s.all[s.names()[0]])
		for _, limit := range []int{size, size - 1} {
			r := begin(t, l, idempotency.Options{Spill: s, SpillLimit: limit})
			_, err := r.Do(t.Context(), request(strings.Repeat("k", size-limit+2)), f)
			if large := as[*idempotency.TooLargeError](err); (large != nil) != (limit < size) || large != nil && (large.Bytes != size || large.Limit != limit) {
				t.Errorf("at most %d bytes: %v", limit, err)
			}
		}
	})
}
