package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// What of the user's is not a handler is called by goroutines that the worker cannot spare: it must neither end nor keep
// them.

// callLimit is how long a function may take that must not block.
const callLimit = time.Minute

// A function that ends with its context may take endsIn for that.
const endsIn = 100 * time.Millisecond

// moment is for a function whose limit passed while the process was frozen: it runs on only now.
const moment = time.Second

// guard calls a user's function. A panic is an error.
func guard(name string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("consumer: %s panicked: %v\n%s", name, p, debug.Stack())
		}
	}()
	if err = f(); err != nil {
		err = fmt.Errorf("consumer: %s: %w", name, err)
	}
	return err
}

// answer is what a user's function came to.
type answer[T any] struct {
	value T
	err   error
}

// apart calls a user's function as guard does, in a goroutine of its own, which a Goexit may end: that is an error too.
// Who does not wait for the answer leaves the goroutine behind until the function returns.
func apart[T any](name string, f func() (T, error)) <-chan answer[T] {
	answered := make(chan answer[T], 1)
	go func() {
		var a answer[T]
		ended := true
		defer func() {
			if ended {
				a.err = fmt.Errorf("consumer: %s ended its goroutine (runtime.Goexit)", name)
			}
			answered <- a
		}()
		a.err = guard(name, func() (err error) { a.value, err = f(); return err })
		ended = false
	}()
	return answered
}

// inTime calls a user's function as apart does, and waits for it no longer than callLimit.
func inTime[T any](name string, f func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), callLimit, errCallLimit)
	defer cancel()
	return outcomeOf(ctx, name, apart(name, f), moment)
}

var errCallLimit = fmt.Errorf("must return within %s, has not", callLimit)

// outcomeOf waits for the answer of a function until ctx ends, and so much longer.
func outcomeOf[T any](ctx context.Context, name string, answered <-chan answer[T], longer time.Duration) (none T, err error) {
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered:
		return a.value, a.err
	case <-time.After(longer):
		return none, fmt.Errorf("consumer: %s: %w", name, context.Cause(ctx))
	}
}
