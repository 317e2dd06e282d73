package engine

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"golang.org/x/time/rate"
)

// admission admits handlers that start one at a time, as the rate and the shared limiter allow.
type admission struct {
	limited  bool              // handlers start one at a time, as Limiter, Rate or Park allow
	measured bool              // how long they take, from then on
	limiter  *consumer.Limiter // nil: there is none
	rate     *rate.Limiter     // nil: there is none
	turn     *consumer.Limiter // to wait for the rate
	starts   context.Context   // ends when no handler may start any more
}

func newAdmission(starts context.Context, o *consumer.Options) *admission {
	a := &admission{limited: o.Limiter != nil || o.Rate > 0 || o.Park, limiter: o.Limiter, starts: starts}
	a.measured = a.limited && o.MinConcurrency > 0
	if o.Rate > 0 {
		a.rate = rate.NewLimiter(rate.Limit(o.Rate), int(max(1, min(o.Rate/10, math.MaxInt32))))
		a.turn = consumer.NewLimiter(1)
	}
	return a
}

// errTakenBack says that there is nothing left to begin.
var errTakenBack = errors.New("engine: taken back")

// acquire waits for the rate and for the shared limiter, in that order: who waits for the rate keeps no other worker's
// handler from the limiter. One goroutine at a time does both, so that no turns of the rate pile up before the limiter
// and then start at once. A chunk that was taken back meanwhile gives its turn of the rate back: those that come after a
// pause, a rebalance or an outage would else wait behind as many turns as there are handlers. A nil chunk has not been
// claimed yet.
func (a *admission) acquire(c *chunk) error {
	if a.rate == nil {
		return a.limiter.Acquire(a.starts)
	}
	if err := a.turn.Acquire(a.starts); err != nil {
		return err
	}
	defer a.turn.Release()
	if c.gone() {
		return errTakenBack
	}
	if err := a.rate.Wait(a.starts); err != nil {
		return err
	}
	if c.gone() {
		a.turnBack()
		return errTakenBack
	}
	if err := a.limiter.Acquire(a.starts); err != nil {
		return err
	}
	if c.gone() {
		a.giveBack()
		return errTakenBack
	}
	return nil
}

// giveBack gives back what acquire gave for something that does not begin.
func (a *admission) giveBack() {
	if a.limited {
		a.limiter.Release()
		a.turnBack()
	}
}

// turnBack gives a turn of the rate back: the bucket holds it for who comes next.
func (a *admission) turnBack() {
	if a.rate != nil {
		a.rate.AllowN(time.Now(), -1)
	}
}
