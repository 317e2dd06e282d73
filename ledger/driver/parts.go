package driver

import (
	"cmp"
	"context"
	"errors"
)

// ErrTooLarge is in the error of a transaction that is more than the store can write as one. Nothing was written. What an operator does to
// many messages is then done in smaller parts.
var ErrTooLarge = errors.New("ledger: larger than the table holds")

// aheadMost is how much of one message's transaction goes ahead of it at once.
const aheadMost = 20

// parts writes a batch in as many transactions as it takes. Each is whole by itself.
type parts[T any] struct {
	key   func(*T) Key
	write func(Tx, []T) (int64, error)
	// ahead does a part of what write does to one that is too large by itself, at most so much, and says how much. Nil: nothing can be
	// done ahead.
	ahead func(tx Tx, one *T, most int) (int64, error)
}

// run adds up what the transactions did.
func (p *parts[T]) run(ctx context.Context, l *Ledger, batch []T) (done int64, err error) {
	err = p.split(ctx, l, batch, cmp.Or(l.cfg.Parts, l.cfg.Keys), &done)
	return done, err
}

func (p *parts[T]) split(ctx context.Context, l *Ledger, batch []T, most int, done *int64) error {
	return split(len(batch), most, func(from, to int) error {
		part := batch[from:to]
		n, err := p.one(ctx, l, part)
		if errors.Is(err, ErrTooLarge) && len(part) > 1 {
			return p.split(ctx, l, part, (len(part)+1)/2, done)
		}
		for ahead := int64(1); errors.Is(err, ErrTooLarge) && p.ahead != nil && ahead > 0; n, err = p.one(ctx, l, part) {
			var failed error
			if ahead, failed = p.operate(ctx, l, part, func(tx Tx) (int64, error) { return p.ahead(tx, &part[0], aheadMost) }); failed != nil {
				return failed
			}
		}
		*done += n
		return err
	})
}

// one is one transaction.
func (p *parts[T]) one(ctx context.Context, l *Ledger, part []T) (int64, error) {
	return p.operate(ctx, l, part, func(tx Tx) (int64, error) { return p.write(tx, part) })
}

// operate counts what a transaction did, if it stands.
func (p *parts[T]) operate(ctx context.Context, l *Ledger, part []T, fn func(Tx) (int64, error)) (n int64, err error) {
	err = l.operate(ctx, Call{Keys: keysOf(part, p.key), Messages: len(part)}, func(tx Tx) (err error) {
		n, err = fn(tx)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
