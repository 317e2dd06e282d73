package history_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

var (
	errRequestLost = errors.New("the request was lost")
	errAnswerLost  = errors.New("the answer was lost")
	errDown        = errors.New("nobody answers")
)

// luck is chance for many goroutines.
type luck struct {
	mu     sync.Mutex
	chance *rand.Rand
}

func (l *luck) draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chance.IntN(n)
}

// openMemory makes a ledger for each history. Of its calls some wait before they begin, some are refused, some are lost on
// their way, and of some the answer is lost.
func openMemory(p plan) (trouble, calm door) {
	l := memory.New()
	chance := &luck{chance: p.chance(-1)}
	l.FailBefore(func(ctx context.Context, _ memory.Op) error {
		if ended(ctx) {
			return nil
		}
		switch n := chance.draw(40); {
		case n == 0:
			return errDown
		case n == 1:
			return ledger.MarkUnknown(errRequestLost)
		case n < 12:
			wait(ctx, time.Duration(chance.draw(300))*time.Microsecond)
		}
		return nil
	})
	l.FailAfter(func(ctx context.Context, _ memory.Op) error {
		if ended(ctx) {
			return nil
		}
		switch n := chance.draw(40); {
		case n == 0:
			return errAnswerLost
		case n < 8:
			wait(ctx, time.Duration(chance.draw(300))*time.Microsecond)
		}
		return nil
	})
	trouble = door{ledger: l, operate: l, limit: hurried(time.Second, 300*time.Microsecond), declare: func(_ context.Context, id string) error {
		l.Declare(id)
		return nil
	}}
	calm = trouble
	calm.limit = func(*rand.Rand) time.Duration { return endLimit }
	return trouble, calm
}

// endLimit is how long each call at the end of a history may take: nothing goes wrong with those.
const endLimit = 20 * time.Second

// ended says whether the call is one of a history's end.
func ended(ctx context.Context) bool {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) > endLimit/2
}

// wait is a delay on the way; it ends with the call.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hurried gives calls their time, and now and then only a moment.
func hurried(usual, moment time.Duration) func(*rand.Rand) time.Duration {
	return func(chance *rand.Rand) time.Duration {
		if chance.IntN(20) == 0 {
			return 1 + time.Duration(chance.Int64N(int64(moment)))
		}
		return usual
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	s := &site{name: "memory", open: openMemory}
	s.check(t, histories(t, 500, 20_000))
}
