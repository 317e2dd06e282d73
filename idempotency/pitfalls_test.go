package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// Who loses the answer that a call's failure is filed, and the lease with it, asks again. The caller gets the call's own end, not what the
// key's row is by then.
func TestPitfall157_OwnEndOrTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		r := begin(t, l, idempotency.Options{RerunFailed: true})
		q := request("k")
		lost := losesSettle(t, l, r, func() { takes(t, l, &q) })
		f, runs := answers("", consumer.Terminal(errBoom))
		out, err := r.Do(t.Context(), q, f)
		if as[*idempotency.FailedError](err) == nil || !errors.Is(err, errBoom) || runs.Load() != 1 || !lost.Load() {
			t.Errorf("%+v, %v after %d runs; an answer was lost: %t", out, err, runs.Load(), lost.Load())
		}
	})
}

// losesSettle has the ledger carry out the next settlement of a runner, which is not told: its lease is lost, and then something happens.
func losesSettle(t *testing.T, l *memory.Ledger, r *idempotency.Runner, then func()) (lost *atomic.Bool) {
	owner := ""
	_, err := r.Do(t.Context(), request("owner"), func(ctx context.Context) (idempotency.Result, error) {
		a, _ := ledger.AttemptFrom(ctx)
		owner = a.Owner().ID()
		return idempotency.Result{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	lost = &atomic.Bool{}
	l.FailAfter(func(_ context.Context, op memory.Op) error {
		if op != memory.Settle || !lost.CompareAndSwap(false, true) {
			return nil
		}
		if !l.Declare(owner) {
			t.Errorf("owner %s was not live", owner)
		}
		then()
		return errBoom
	})
	return lost
}

// takes has another process claim a request, which it runs. It returns its owner.
func takes(t *testing.T, l *memory.Ledger, q *idempotency.Request) string {
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Error(err)
		return ""
	}
	claims, err := o.Claim(t.Context(), []ledger.Entry{{
		Key: keyOf(q.Key), Fingerprint: ledger.BodyFingerprint(q.Body), Delivery: []byte("another"), Window: time.Hour, Solo: true,
	}})
	if err != nil || claims[0].Answer != ledger.Run {
		t.Errorf("%+v, %v", claims, err)
	}
	return o.ID()
}

// A function runs on after its lease was lost, while others take its request over and crash, until that has failed for good: its caller is
// told so, as whoever repeats it.
func TestFailedElsewhereMeanwhile(t *testing.T) {
	for name, end := range map[string]error{"it ends well": nil, "it fails": errBoom} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { failsElsewhere(t, end) })
		})
	}
}

func failsElsewhere(t *testing.T, end error) {
	l := memory.New()
	r := begin(t, l, idempotency.Options{})
	q := request("k")
	begun, goOn, told := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := r.Do(t.Context(), q, func(context.Context) (idempotency.Result, error) {
			close(begun)
			<-goOn
			return idempotency.Result{Body: []byte("paid")}, end
		})
		told <- err
	}()
	<-begun
	rec, err := l.Get(t.Context(), keyOf(q.Key))
	if err != nil || !l.Declare(rec.Owner) {
		t.Fatalf("the request is %+v, %v", rec, err)
	}
	for range ledger.CrashLimit - 1 {
		l.Declare(takes(t, l, &q))
	}
	close(goOn)
	if err := <-told; as[*idempotency.FailedError](err) == nil || errors.Is(err, errBoom) {
		t.Errorf("the call that ran: %v", err)
	}
	if _, err := r.Do(t.Context(), q, never(t)); as[*idempotency.FailedError](err) == nil {
		t.Errorf("a repetition: %v", err)
	}
}

// Who waits in the same process gets what the transaction has committed, as whoever comes later, not what the function has returned since.
func TestPitfall160_CommittedOrReturned(t *testing.T) {
	for name, end := range map[string]error{"it returns another result": nil, "it returns an error": errBoom} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, memory.New(), idempotency.Options{})
				f := func(ctx context.Context) (idempotency.Result, error) {
					err := memory.InTx(ctx, func(ctx context.Context) error {
						return idempotency.SetResult(ctx, idempotency.Result{Body: []byte("committed")})
					})
					if err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second) // of the bubble's clock: the other one waits by then
					return idempotency.Result{Body: []byte("returned")}, end
				}
				var all sync.WaitGroup
				defer all.Wait()
				all.Go(func() { _, _ = r.Do(t.Context(), request("k"), f) })
				synctest.Wait()
				for range 2 { // while it runs, and later
					if out, err := r.Do(t.Context(), request("k"), never(t)); err != nil || string(out.Result.Body) != "committed" || !out.Replayed {
						t.Errorf("%q, %+v, %v", out.Result.Body, out, err)
					}
				}
			})
		})
	}
}

// A function that returns an error while its transaction goes on does not take the transaction's result away. A transaction without one is
// rolled back.
func TestPitfall164_ReturnsBeforeItsTransaction(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]bool{"its result is set": true, "no result is set": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := openFile(t)
			r, committed := begin(t, l, idempotency.Options{}), make(chan error, 1)
			_, err := r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
				started := make(chan struct{})
				go func() {
					committed <- sqlite.InTx(context.WithoutCancel(ctx), func(tx context.Context, _ *sql.Tx) (err error) {
						if set {
							err = idempotency.SetResult(tx, idempotency.Result{Status: 201})
						}
						close(started)
						<-ctx.Done() // the function has returned
						return err
					})
				}()
				<-started
				return idempotency.Result{}, errBoom
			})
			if err := <-committed; (err == nil) != set {
				t.Errorf("committed: %v", err)
			}
			f, runs := answers("paid", nil)
			out, again := r.Do(t.Context(), request("k"), f)
			if again != nil || out.Result.Status != 201 || out.Replayed != set || (runs.Load() == 0) != set {
				t.Errorf("%v; again %+v, %v after %d runs", err, out, again, runs.Load())
			}
		})
	}
}

// A ledger that goes away while a function runs does not keep its caller: it is told that the end is not known, and a repetition is told the end.
func TestPitfall167_AwayAfterTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		r := begin(t, l, idempotency.Options{Wait: time.Second})
		f, runs := answers("paid", nil)
		began := time.Now()
		_, err := r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
			l.FailBefore(func(_ context.Context, op memory.Op) error {
				if op != memory.Settle {
					return nil
				}
				return ledger.MarkUnavailable(errBoom)
			})
			return f(ctx)
		})
		if took := time.Since(began); !errors.Is(err, idempotency.ErrUnknown) || took != idempotency.DefaultWait {
			t.Errorf("%v after %s", err, took)
		}
		l.FailBefore(nil)
		time.Sleep(time.Minute)
		if out, err := r.Do(t.Context(), request("k"), f); err != nil || string(out.Result.Body) != "paid" || runs.Load() != 1 {
			t.Errorf("again: %+v, %v after %d runs", out, err, runs.Load())
		}
	})
}

// A client that sends other bodies under a known key is told so, however often, and fills nothing.
func TestPitfall172_MismatchesAreTold(t *testing.T) {
	t.Parallel()
	l := memory.New()
	r := begin(t, l, idempotency.Options{})
	f, _ := answers("paid", nil)
	if _, err := r.Do(t.Context(), request("k"), f); err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		other := request("k")
		other.Body = fmt.Append(nil, n)
		if _, err := r.Do(t.Context(), other, never(t)); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("%d: %v", n, err)
		}
	}
	for dead, err := range l.DeadLetters(t.Context(), ledger.Filter{}) {
		t.Errorf("archived: %+v, %v", dead, err)
	}
}

// blows is a value whose own encoding panics.
type blows struct{}

func (blows) MarshalJSON() ([]byte, error) { panic("no JSON today") }

// TestPitfall180_ResultsThatPanic: a call whose result panicked while it was encoded was made again with each attempt.
func TestPitfall180_ResultsThatPanic(t *testing.T) {
	t.Parallel()
	r := begin(t, memory.New(), idempotency.Options{Attempts: 5})
	calls := 0
	for name, do := range map[string]func() error{
		"step": func() error {
			_, err := r.Do(t.Context(), request("step"), func(ctx context.Context) (idempotency.Result, error) {
				_, err := consumer.Step(ctx, "charge", func(context.Context, string) (blows, error) { calls++; return blows{}, nil })
				return idempotency.Result{}, err
			})
			return err
		},
		"value": func() error {
			_, err := idempotency.Do(t.Context(), r, request("value"), func(context.Context) (blows, error) { calls++; return blows{}, nil })
			return err
		},
	} {
		calls = 0
		for range 3 {
			if err := do(); as[*idempotency.FailedError](err) == nil || !strings.Contains(err.Error(), "panicked: no JSON today") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if calls != 1 {
			t.Errorf("%s: %d calls", name, calls)
		}
	}
}
