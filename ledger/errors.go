package ledger

import (
	"errors"
	"fmt"
)

var (
	// ErrLost says that the caller does not own what it speaks for any more: its lease ended, it was declared dead, or
	// somebody else claimed the message. What it did afterwards changed nothing. Never acknowledge.
	ErrLost = errors.New("ledger: lease lost")

	// ErrSettled says that the attempt has its transaction already, or is over: InTx was called a second time in one attempt,
	// or after its handler had returned.
	ErrSettled = errors.New("ledger: the attempt is already settled")

	// ErrNotFound says that the ledger holds no row for the key.
	ErrNotFound = errors.New("ledger: no such message")

	// ErrChanged says that a message is not any more what an operator's guarded write was meant for. Nothing was written.
	ErrChanged = errors.New("ledger: the message has changed meanwhile")

	// ErrNoAttempt says that a context does not come from a handler run by ackledger.
	ErrNoAttempt = errors.New("ledger: the context carries no attempt: it is not the one that a handler was called with, or made of it")
)

// IsLost reports whether err means that ownership was lost.
func IsLost(err error) bool { return errors.Is(err, ErrLost) }

// Unknown reports whether the call that returned err may have been carried out nevertheless: the connection broke, or
// the time was up, after the request may have reached the database. An error for which it is false changed nothing.
func Unknown(err error) bool { return hasMark[unknown](err) }

// MarkUnknown wraps err so that Unknown reports true for it. Stores call it. Nil stays nil.
func MarkUnknown(err error) error { return mark[unknown]("ledger: answer unknown: ", err) }

// Unusable reports whether err cannot heal without somebody mending the set-up: no tables, an incompatible schema, a
// refused login. Run returns such an error when it starts, and goes on trying on any other.
func Unusable(err error) bool { return hasMark[unusable](err) }

// MarkUnusable wraps err so that Unusable reports true for it. Stores call it. Nil stays nil.
func MarkUnusable(err error) error { return mark[unusable]("", err) }

// Refused reports whether err says that the ledger's database has answered, and refuses what it is asked until somebody mends
// the set-up or the program: no rights, another table, a request that it does not take. All errors for which Unusable is true
// are of this kind. A worker goes on trying, as in an outage, and says that the ledger refuses, not that it is unreachable.
func Refused(err error) bool { return hasMark[refused](err) || Unusable(err) }

// MarkRefused wraps err so that Refused reports true for it. Stores call it. Nil stays nil.
func MarkRefused(err error) error { return mark[refused]("", err) }

// Unavailable reports whether err says that the database could not be reached, or broke off. InTx marks such errors: an
// attempt that ends with one is an outage, not the handler's failure, and is not counted.
func Unavailable(err error) bool { return hasMark[unavailable](err) }

// MarkUnavailable wraps err so that Unavailable reports true for it. Stores call it. Nil stays nil.
func MarkUnavailable(err error) error { return mark[unavailable]("ledger: unavailable: ", err) }

// The marks of errors.
type (
	unknown     struct{}
	unusable    struct{}
	refused     struct{}
	unavailable struct{}
)

// marked is an error with the mark M.
type marked[M any] struct {
	prefix string
	err    error
}

func (m *marked[M]) Error() string { return m.prefix + m.err.Error() }
func (m *marked[M]) Unwrap() error { return m.err }

func hasMark[M any](err error) bool {
	_, ok := errors.AsType[*marked[M]](err)
	return ok
}

// mark wraps err, unless it is nil or has the mark already.
func mark[M any](prefix string, err error) error {
	if err == nil || hasMark[M](err) {
		return err
	}
	return &marked[M]{prefix, err}
}

// InvalidError refuses one entry, settlement or setting for its own sake: trying again cannot help.
type InvalidError struct {
	Field string // which one, such as "Entry.Key.ID"
	Bound string // what is allowed, such as "1 to 1024 bytes"
	Value string // what was given, such as "2048 bytes"; never a message body
	Err   error  // the database's own error, if it refused
}

// Error names field, bound and value.
func (e *InvalidError) Error() string {
	s := fmt.Sprintf("ledger: %s: must be %s, is %s", e.Field, e.Bound, e.Value)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the database's own error, if there is one.
func (e *InvalidError) Unwrap() error { return e.Err }

func invalidLen(field string, low, high, got int) error {
	return &InvalidError{Field: field, Bound: fmt.Sprintf("%d to %d bytes", low, high), Value: fmt.Sprintf("%d bytes", got)}
}
