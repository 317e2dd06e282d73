package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// targetTries is how often a target is asked how long it keeps dead letters: the worker starts without an answer, too, and
// does so for as long as it runs.
const targetTries = 3

// TargetRetention asks how long dead letters are kept where they go; zero: there is no such place, or it is not known. What
// is kept for longer than half of the longest window counts as kept for ever.
func TargetRetention(ctx context.Context, o *consumer.Options) (keeps time.Duration, err error) {
	target, ok := o.DeadLetter.(consumer.Retainer)
	if !ok {
		return 0, nil
	}
	for n := 1; ; n++ {
		asked, cancel := context.WithTimeout(ctx, o.DeadLetterTimeout)
		err = guard("Options.DeadLetter", func() (err error) { keeps, err = target.Retention(asked); return err })
		cancel()
		switch {
		case err == nil && keeps > ledger.MaxWindow/2:
			return 0, fmt.Errorf("consumer: Options.DeadLetter: keeps messages for %s: it %w", keeps, consumer.ErrUnbounded)
		case err == nil:
			return max(keeps, 0), nil
		case errors.Is(err, consumer.ErrUnbounded) || n == targetTries:
			return 0, err
		}
		if Sleep(ctx, time.Duration(n)*500*time.Millisecond); ctx.Err() != nil {
			return 0, err
		}
	}
}

// CheckTarget asks where dead letters go. A target that is one of the worker's own sources is an error; one that cannot be
// asked is a warning, since messages can be consumed without it.
func CheckTarget(ctx context.Context, o *consumer.Options, sources ...string) (warning string, err error) {
	if o.DeadLetter == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.DeadLetterTimeout)
	defer cancel()
	var target string
	failed := guard("Options.DeadLetter", func() (err error) { target, err = o.DeadLetter.Source(ctx); return err })
	switch {
	case failed != nil:
		return fmt.Sprintf("dead letters may not arrive, the archive has them all the same: %v", failed), nil
	case target != "" && slices.Contains(sources, target):
		return "", fmt.Errorf("consumer: Options.DeadLetter: must not be the source itself, is %s: each failure would be consumed again", target)
	}
	return "", nil
}
