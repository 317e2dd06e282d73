package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestPitfall270_BehindAHeadThatTakesLong: what came behind a parked message was held while that was due, since it would soon be over: for an
// hour, with its partition, if its handler took an hour, and the ledger was asked ten times a second.
func TestPitfall270_BehindAHeadThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, hold := &asked{Ledger: memory.New()}, make(chan struct{})
		h := &ordered{}
		e, b := begin(t, l, options(), func(ctx context.Context, m *consumer.Message) error {
			switch {
			case m.ID != "1/0":
			case m.Attempt == 1:
				return consumer.RetryAfter(errors.New("not yet"), 2*time.Minute)
			default:
				<-hold
			}
			return h.handle(ctx, m)
		}, parks)
		lanes := engine.NewLanes(scope, "log")
		e.Offer(ofKey(lanes, 1, 0, 1))
		pass(3 * time.Minute) // its second attempt runs
		behind := ofKey(lanes, 1, 1, 3)
		e.Offer(behind)
		asks := l.lanes.Load()
		pass(time.Hour)
		b.wantAcked(t, behind...)
		if n := l.lanes.Load() - asks; n > 100 {
			t.Errorf("the ledger was asked %d times", n)
		}
		close(hold)
		pass(time.Minute)
		h.wantDone(t, "1/0", "1/1", "1/2")
		wantParked(t, l.Ledger, 0)
		end(t, e)
	})
}
