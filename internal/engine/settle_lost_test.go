package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// stuck is a ledger whose first owner beats no more after a while, and never gets an answer to a settlement: what it
// knows of the database's clock is too old, so all its statements are late.
type stuck struct {
	*memory.Ledger
	joined atomic.Int64
}

type stuckOwner struct{ ledger.Owner }

var errTooLate = errors.New("the statement reached the database after its deadline")

func (l *stuck) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	if err == nil && l.joined.Add(1) == 1 {
		o = stuckOwner{o}
	}
	return o, err
}

func (o stuckOwner) Settle(context.Context, []ledger.Settlement) ([]error, error) {
	return nil, errTooLate
}
func (o stuckOwner) Beat(context.Context) (time.Duration, error) { return 0, errTooLate }

// A worker loses its lease while it settles, and what it knows of the database's clock stays behind for good: it repeated
// the settlements of its old session for ever, and settled nothing else. Its messages were nobody's until it was restarted.
func TestSettlementsOfALostSessionEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stuck{Ledger: memory.New()}
		e, b := begin(t, l, options(), func(context.Context, *consumer.Message) error { return nil })
		in := items(10, noLane)
		e.Offer(in)
		pass(5 * time.Minute)
		b.wantAcked(t, in...)
		if n := l.joined.Load(); n != 2 {
			t.Errorf("it joined %d times", n)
		}
		end(t, e)
	})
}
