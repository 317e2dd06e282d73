package idempotency_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestStepOfARequest: a request that is released, and asked for again, makes no call whose result is recorded.
func TestStepOfARequest(t *testing.T) {
	t.Parallel()
	r := begin(t, memory.New(), idempotency.Options{Name: "steps"})
	made, failure := 0, errBoom
	do := func() (idempotency.Outcome, error) {
		return r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
			id, err := consumer.Step(ctx, "charge", func(_ context.Context, key string) (string, error) {
				made++
				return key, nil
			})
			if err != nil || id != consumer.ChildKey(ctx, "charge") {
				t.Errorf("step: %q, %v", id, err)
			}
			if failure != nil {
				return idempotency.Result{}, idempotency.Release(failure)
			}
			return idempotency.Result{Status: 201, Body: []byte(id)}, nil
		})
	}
	if _, err := do(); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	failure = nil
	if out, err := do(); err != nil || out.Replayed || made != 1 {
		t.Fatalf("%+v, %v, %d calls", out, err, made)
	}
}
