package idempotency

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ackledger/ackledger/consumer"
)

// Do is [Runner.Do] for a function with a value, which is kept as encoding/json writes it. A repetition gets the value, and f is not
// called:
//
//	receipt, err := idempotency.Do(ctx, runner, idempotency.Request{Scope: "charge", Key: order.ID}, func(ctx context.Context) (Receipt, error) {
//		return payments.Charge(ctx, consumer.ChildKey(ctx, "charge"), order.Amount)
//	})
//
// A function whose transaction settles the request (postgres.InTx, sqlite.InTx) calls [SetValue] in it. A value that encoding/json
// refuses, or that is too large, fails the request for good: its effects may have happened.
//
// Errors are those of [Runner.Do], and [ErrNoValue]: the request was done, and there is no value to give. Whoever needs to know whether
// an answer is a repetition, or has another encoding, calls [Runner.Do].
func Do[T any](ctx context.Context, r *Runner, q Request, f func(ctx context.Context) (T, error)) (T, error) {
	var value, none T
	var failed error
	out, err := r.Do(ctx, q, func(ctx context.Context) (Result, error) {
		if value, failed = f(ctx); failed != nil {
			return Result{}, failed
		}
		return inJSON(value)
	})
	switch {
	case err != nil: // f may still run
		return none, err
	case !out.Replayed && failed != nil:
		return none, fmt.Errorf("%w: its function returned an error after its transaction had committed: %w", ErrNoValue, failed)
	case !out.Replayed:
		return value, nil
	case out.Result.Tombstone != "":
		return none, fmt.Errorf("%w: %s", ErrNoValue, out.Result.Tombstone)
	}
	var stored T
	if err := json.Unmarshal(out.Result.Body, &stored); err != nil {
		return none, fmt.Errorf("%w: what is stored does not fit %T: %w", ErrNoValue, none, err)
	}
	return stored, nil
}

// SetValue is [SetResult] for a function of [Do]: it sets the value that repetitions get. Its errors are those of SetResult, and a
// consumer.Terminal one for what encoding/json refuses.
func SetValue(ctx context.Context, value any) error {
	r, err := inJSON(value)
	if err != nil {
		return err
	}
	return SetResult(ctx, r)
}

// inJSON is how a value is kept.
func inJSON(value any) (Result, error) {
	body, err := valueJSON(value)
	if err != nil {
		return Result{}, consumer.Terminal(fmt.Errorf("idempotency: the request's value cannot be kept: %w", err))
	}
	return Result{MediaType: "application/json", Body: body}, nil
}

// valueJSON is json.Marshal. A value's own method that panics is a value that is refused: what it tells of was done.
func valueJSON(value any) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			body, err = nil, fmt.Errorf("json: encoding %T panicked: %v", value, p)
		}
	}()
	return json.Marshal(value)
}
