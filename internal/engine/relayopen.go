package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// errNoCipher says why a message that is sealed is not sent.
var errNoCipher = errors.New("consumer: Relay.Cipher: the message is sealed, and there is no cipher to open it")

// opener opens what is sealed of the outbox.
type opener struct {
	cipher ledger.Cipher // nil: none
	limit  time.Duration // of one batch
}

// The bounds of [closedFor].
const (
	closedLeast = 200 * time.Millisecond
	closedMost  = 30 * time.Second
)

// closedFor is how long a message that was not opened waits until it is tried again, for a draw in [0, 1): the longer the older it is, since
// no tries are counted by which it could go. What was late by a time is late by a quarter of it more. A clock that is not the database's moves
// it between its bounds.
func closedFor(age time.Duration, draw float64) time.Duration {
	most := min(max(age/4, closedLeast), closedMost)
	return most/2 + time.Duration(draw*float64(most/2))
}

// unopened is a message that the cipher did not open.
type unopened struct {
	q   *ledger.Queued
	err error
}

// open opens what is sealed. It returns what can be sent, and what the cipher did not open; what is behind that under its key is not among
// either. An error is that of a cipher that did not answer.
func (o *opener) open(ctx context.Context, next []ledger.Queued) (can []ledger.Queued, closed []unopened, err error) {
	if !slices.ContainsFunc(next, func(q ledger.Queued) bool { return q.Sealed() }) {
		return next, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	plain := slices.Clone(next) // a call that was left behind goes on with that
	answered := apart("Relay.Cipher", func() ([]error, error) { return o.openAll(ctx, plain), nil })
	errs, err := outcomeOf(ctx, "Relay.Cipher", answered, endsIn)
	if err != nil {
		return nil, nil, err
	}
	behind := map[string]bool{} // keys of which one was not opened
	for i := range plain {
		q := &plain[i]
		switch key := string(q.Key); {
		case behind[key]:
		case errs[i] != nil:
			closed = append(closed, unopened{q, errs[i]})
			behind[key] = key != ""
		default:
			can = append(can, *q)
		}
	}
	return can, closed, nil
}

func (o *opener) openAll(ctx context.Context, list []ledger.Queued) []error {
	errs := make([]error, len(list))
	for i := range list {
		switch q := &list[i]; {
		case !q.Sealed():
		case o.cipher == nil:
			errs[i] = errNoCipher
		default:
			errs[i] = q.Open(ctx, o.cipher)
		}
	}
	return errs
}
