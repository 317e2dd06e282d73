package idempotency

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMismatch says that the key is known with another body: the request was not run, and is not answered.
	ErrMismatch = errors.New("idempotency: the key is known with another body")
	// ErrWaited says that the request is in progress elsewhere, and was so for as long as could be waited. It was not run.
	ErrWaited = errors.New("idempotency: waited in vain for the same request, which is in progress")
	// ErrFull says that as many requests wait or run as may. It was not run.
	ErrFull = errors.New("idempotency: too many requests wait or run")
	// ErrNoTurn says that the request's turn did not come for as long as could be waited: the ledger had not answered yet, or as many
	// functions ran as may. It was not run. It is no ErrUnavailable, so that who runs requests unprotected while the ledger is away does
	// not run them because of a queue.
	ErrNoTurn = errors.New("idempotency: waited in vain for the request's turn")
	// ErrUnavailable says that the ledger does not answer, or the runner does not run: nothing is done, since nothing would be remembered.
	ErrUnavailable = errors.New("idempotency: the ledger is not available")
	// ErrNotRunning says that the runner does not run, or not any more: it has not joined the ledger yet, or drains. It is an
	// ErrUnavailable, and says nothing of the ledger.
	ErrNotRunning = fmt.Errorf("%w: the runner does not run", ErrUnavailable)
	// ErrPaused says that somebody has paused the runner: its program ([Runner.Pause]), or an operator ([ledger.Board]). It was not run. It is no ErrUnavailable, so that who runs
	// requests unprotected while the ledger is away does not run them in a pause.
	ErrPaused = errors.New("idempotency: the runner is paused")
	// ErrUnknown says that the request ran, and that it is not known whether the ledger has noted how it ended: its lease was lost, its
	// transaction was not answered, or the ledger did not answer for as long as callers wait (Options.Wait, and the default at least).
	// Asking again says it.
	ErrUnknown = errors.New("idempotency: whether the request was done is not known: ask again")
	// ErrNoValue says that the request was done, and that there is no value to give ([Do]): what is stored does not fit the type, or
	// nothing could be stored. It does not run again.
	ErrNoValue = errors.New("idempotency: the request was done, and there is no value to give")
)

// InProgressError says that the same request is in progress, and that the caller does not wait for it.
type InProgressError struct {
	// Rest is how long whoever runs it may keep it without a sign of life, as far as it is known: the rest of its lease. Zero: not
	// known.
	Rest time.Duration
}

// Error names the rest.
func (e *InProgressError) Error() string {
	return fmt.Sprintf("idempotency: the same request is in progress (for %s at least, unless it ends before)", e.Rest.Round(time.Millisecond))
}

// KeyError says that a key is not one: the caller's mistake.
type KeyError struct{ Err error }

// Error says what is wrong with it.
func (e *KeyError) Error() string { return e.Err.Error() }

// Unwrap returns what Options.CheckKey said.
func (e *KeyError) Unwrap() error { return e.Err }

// FailedError is the error of a request that failed for good: its own, or, in a repetition, what the ledger has kept of it.
type FailedError struct {
	Text string // the error's text
	Err  error  // what the function returned; nil in a repetition
}

// Error returns the text.
func (e *FailedError) Error() string { return e.Text }

// Unwrap returns the function's error, in the call that ran it.
func (e *FailedError) Unwrap() error { return e.Err }

// TooLargeError says that a result is larger than is kept. It is refused before anything is written; nothing is ever cut.
type TooLargeError struct {
	Bytes, Limit int
	Err          error // why it was not spilled, although it might have been: Options.Spill's; else nil
}

// Error names both bytes and limit, or why the result was not spilled.
func (e *TooLargeError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("idempotency: the result of %d bytes, as it is stored, is too large for the ledger, and was not spilled: %v", e.Bytes, e.Err)
	}
	return fmt.Sprintf("idempotency: the result must be at most %d bytes as it is stored, is %d: set Options.Spill, or a larger ledger.Limits.Result", e.Limit, e.Bytes)
}

// Unwrap returns Err.
func (e *TooLargeError) Unwrap() error { return e.Err }
