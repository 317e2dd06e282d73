package engine

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"go.uber.org/zap"
)

// brake is what an engine does about its breaker. While it is open no handler starts, what is claimed is released, and after
// each pause one message is tried. The engine's lock guards it.
type brake struct {
	breaker breaker
	tripped bool      // it has just opened, or the budget is spent: what is ours is still to be released
	since   time.Time // when it opened
	why     string    // that it did
	probe   *Item     // the message that is being tried, until its settlement is answered; nil: none is
	spoken  probeEnd  // what came of it so far
}

// probeEnd is what came of a message that was tried.
type probeEnd uint8

const (
	probeVoid  probeEnd = iota // it was busy, finished before, or taken back by its broker: it says nothing
	probeAgain                 // its handler ran, and it is to be repeated: that says nothing either, but was a try
	probeGood
	probeBad
)

func (e *Engine) newBrake() {
	if o := e.opt.Breaker; !o.Off {
		e.brake.breaker = breaker{failures: o.Failures, percent: o.Percent}
	}
}

// mayProbe says whether a message is to be tried now.
func (e *Engine) mayProbe() bool {
	return e.brake.breaker.open && e.brake.probe == nil && e.mayWork() && e.brake.breaker.mayTry(time.Since(e.born))
}

// hungry says whether there is nothing in hand that could be tried.
func (e *Engine) hungry() bool {
	return e.mayProbe() && e.s.claimQ.len()+e.s.suspectQ.len() == 0
}

// heldBack says whether an item may not run because the budget is spent, or because the breaker is open and another one is
// tried, or none.
func (e *Engine) heldBack(it *Item) bool {
	return e.purse.budget.stops || e.brake.breaker.open && e.brake.probe != it
}

// judge counts a message that came to its end. now is since Engine.born.
func (e *Engine) judge(it *Item, now time.Duration, good bool) {
	switch {
	case e.brake.probe == it && good:
		e.brake.spoken = probeGood
	case e.brake.probe == it:
		e.brake.spoken = probeBad
	case good:
		e.brake.breaker.handled(now, 1, 0)
	default:
		e.failedForGood(now)
	}
}

// failedForGood counts a failure, and opens the breaker if it is one too many.
func (e *Engine) failedForGood(now time.Duration) {
	b := &e.brake.breaker
	if !b.handled(now, 0, 1) {
		return
	}
	failed, all := b.sum.bad, b.sum.good+b.sum.bad
	e.brake.tripped, e.brake.since = true, time.Now()
	e.brake.why = fmt.Sprintf("the breaker is open: %d of %d messages failed for good within a minute", failed, all)
	e.log.Error("too many messages fail for good: the worker pauses, and tries one at a time",
		zap.Int("failed", failed), zap.Int("messages", all), zap.Duration("after", b.pause))
	e.wakeAfter(b.pause)
}

// wakeAfter has what waits for the end of the pause look again.
func (e *Engine) wakeAfter(d time.Duration) {
	time.AfterFunc(d, func() {
		e.mu.Lock()
		e.improved()
		e.unlock()
	})
}

// releaseClaimed gives back all that is ours and has not begun.
func (e *Engine) releaseClaimed() {
	e.takeBackAll()
	for it := e.all; it != nil; {
		next := it.allNext
		if it.phase == claimed {
			e.release(it)
		}
		it = next
	}
}

// probeLoop tries one message at a time while the breaker is open.
func (e *Engine) probeLoop() {
	failed := 0
	for {
		e.mu.Lock()
		for !e.closed && (e.s.claimQ.len() == 0 || !e.mayProbe()) {
			e.toProbe.Wait()
		}
		closed := e.closed
		e.mu.Unlock()
		if closed {
			return
		}
		if e.limited && e.acquire(nil) != nil {
			continue // the drain began
		}
		sess, it := e.takeProbe()
		if it == nil {
			e.notAdmitted()
			continue
		}
		ok, done := e.runAlone(sess, it)
		if !e.concludes(done) {
			return
		}
		e.probed(it)
		failed = e.rest(failed, ok)
	}
}

// takeProbe takes the message that is tried next.
func (e *Engine) takeProbe() (*session, *Item) {
	e.mu.Lock()
	defer e.unlock()
	if !e.mayProbe() {
		return nil, nil
	}
	taken := e.s.takeClaims(1, true, nil)
	if len(taken) == 0 {
		e.improved() // there is nothing to try: it is to be polled for
		return nil, nil
	}
	it := taken[0]
	e.brake.probe, e.brake.spoken = it, probeVoid
	it.placed, it.extra().answered = true, make(chan struct{})
	return e.sess, it
}

// probed notes what came of the message that was tried, if it was this one.
func (e *Engine) probed(it *Item) {
	e.mu.Lock()
	defer e.unlock()
	if e.brake.probe != it {
		return
	}
	end := e.brake.spoken
	e.brake.probe = nil
	b := &e.brake.breaker
	switch {
	case end == probeVoid:
	case end == probeAgain:
		b.again(time.Since(e.born))
		e.wakeAfter(againPause)
	case b.tried(time.Since(e.born), end == probeGood):
		e.log.Info("messages succeed again: the worker goes on", zap.Duration("after", time.Since(e.brake.since)))
	case end == probeBad:
		e.log.Warn("the message that was tried failed: the worker stays paused", zap.String("message_id", string(it.Key.ID)),
			zap.Duration("after", b.pause))
		e.wakeAfter(b.pause)
	}
	e.improved()
}

// breakerOpen says whether the breaker is open.
func (e *Engine) breakerOpen() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.brake.breaker.open
}

// stalls says that the worker does not get on.
func (b *brake) stalls() []consumer.Stall {
	if !b.breaker.open {
		return nil
	}
	return []consumer.Stall{{What: "the worker", Reason: consumer.StallBreaker, Why: b.why, Since: b.since}}
}
