package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// receipt is a value whose text is not its zero value's.
type receipt struct {
	Charge string `json:"charge"`
	Cents  int    `json:"cents"`
}

// charges is a function that makes receipts, and how often it has run.
func charges(made receipt, err error) (f func(context.Context) (receipt, error), runs *int) {
	runs = new(int)
	return func(context.Context) (receipt, error) {
		*runs++
		return made, err
	}, runs
}

// A value is the same in each repetition, also in another process; another body is told as ever.
func TestValues(t *testing.T) {
	t.Parallel()
	l := memory.New()
	here, there := begin(t, l, idempotency.Options{}), begin(t, l, idempotency.Options{})
	want := receipt{Charge: "ch_7", Cents: 4200}
	f, runs := charges(want, nil)
	for _, r := range []*idempotency.Runner{here, here, there} {
		if got, err := idempotency.Do(t.Context(), r, request("k"), f); err != nil || got != want || *runs != 1 {
			t.Errorf("%+v, %v after %d runs", got, err, *runs)
		}
	}
	out, err := there.Do(t.Context(), request("k"), never(t))
	if err != nil || string(out.Result.Body) != `{"charge":"ch_7","cents":4200}` || out.Result.MediaType != "application/json" {
		t.Errorf("what is stored: %+v, %v", out.Result, err)
	}
	other := request("k")
	other.Body = []byte("another")
	if got, err := idempotency.Do(t.Context(), here, other, f); !errors.Is(err, idempotency.ErrMismatch) || got != (receipt{}) || *runs != 1 {
		t.Errorf("another body: %+v, %v after %d runs", got, err, *runs)
	}
}

// An error that is to be tried again is, and has no value; one for good is kept, and so is that of a value that cannot be.
func TestValuesOfFailures(t *testing.T) {
	t.Parallel()
	r := begin(t, memory.New(), idempotency.Options{})
	half := receipt{Charge: "half"}
	f, runs := charges(half, idempotency.Release(errBoom))
	for range 2 {
		if got, err := idempotency.Do(t.Context(), r, request("again"), f); !errors.Is(err, errBoom) || got != (receipt{}) {
			t.Errorf("to be run again: %+v, %v", got, err)
		}
	}
	if *runs != 2 {
		t.Errorf("to be run again: %d runs", *runs)
	}
	f, runs = charges(half, consumer.Terminal(errors.New("card declined")))
	for range 2 {
		got, err := idempotency.Do(t.Context(), r, request("declined"), f)
		if as[*idempotency.FailedError](err) == nil || err.Error() != "card declined" || got != (receipt{}) || *runs != 1 {
			t.Errorf("failed for good: %+v, %v after %d runs", got, err, *runs)
		}
	}
	made := 0
	for range 2 {
		_, err := idempotency.Do(t.Context(), r, request("no-JSON"), func(context.Context) (func(), error) {
			made++
			return func() {}, nil
		})
		if as[*idempotency.FailedError](err) == nil || made != 1 {
			t.Errorf("no JSON: %v after %d runs", err, made)
		}
	}
}

// What is stored and does not fit is an error of its own, and never a second run.
func TestValuesThatDoNotFit(t *testing.T) {
	t.Parallel()
	r := begin(t, memory.New(), idempotency.Options{})
	store := func(key string, res idempotency.Result) {
		if _, err := r.Do(t.Context(), request(key), func(context.Context) (idempotency.Result, error) { return res, nil }); err != nil {
			t.Fatal(err)
		}
	}
	store("text", idempotency.Result{Body: []byte("paid")})
	store("list", idempotency.Result{Body: []byte(`[1, 2]`)})
	store("cut", idempotency.Result{Body: []byte(`{"charge":"ch_7","cents":`)})
	store("tombstone", idempotency.Result{Tombstone: "sent piece by piece", Body: []byte(`{}`)})
	f, runs := charges(receipt{Charge: "twice"}, nil)
	for _, key := range []string{"text", "list", "cut", "tombstone"} {
		if got, err := idempotency.Do(t.Context(), r, request(key), f); !errors.Is(err, idempotency.ErrNoValue) || got != (receipt{}) || *runs != 0 {
			t.Errorf("%s: %+v, %v after %d runs", key, got, err, *runs)
		}
	}
}

// Effect, value and success are one commit. Who returns an error after it has no value in this call, and that of the commit in the next.
func TestValuesInTx(t *testing.T) {
	t.Parallel()
	l, db := openFile(t)
	r := begin(t, l, idempotency.Options{})
	want := receipt{Charge: "ch_7", Cents: 4200}
	do := func(key string, set any, late error) (receipt, error) {
		return idempotency.Do(t.Context(), r, request(key), func(ctx context.Context) (receipt, error) {
			err := sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO effect VALUES (?)", key); err != nil {
					return err
				}
				return idempotency.SetValue(ctx, set)
			})
			return want, errors.Join(err, late)
		})
	}
	for range 2 {
		if got, err := do("k", want, nil); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got, err := do("late", want, errBoom); !errors.Is(err, idempotency.ErrNoValue) || !errors.Is(err, errBoom) || got != (receipt{}) {
		t.Errorf("an error after the commit: %+v, %v", got, err)
	}
	if got, err := do("late", nil, nil); err != nil || got != want {
		t.Errorf("and again: %+v, %v", got, err)
	}
	if got, err := do("refused", func() {}, nil); as[*idempotency.FailedError](err) == nil || got != (receipt{}) {
		t.Errorf("no JSON: %+v, %v", got, err)
	}
	var effects int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effect").Scan(&effects); err != nil || effects != 2 {
		t.Errorf("%d effects, %v", effects, err)
	}
	if err := idempotency.SetValue(t.Context(), want); err == nil {
		t.Error("a value was set outside of a function")
	}
}
