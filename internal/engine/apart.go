package engine

import (
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
)

// oneSuspect is the process' one place for a suspect: a message whose claims ended in crashes before. Several workers in
// one process share it.
var oneSuspect = consumer.NewLimiter(1)

// apartRunner claims and runs one message at a time, beside the pool: suspects, and what is tried while the breaker is open.
type apartRunner struct {
	*kernel
	lease     *lease
	admission *admission
	claimer   *claimer
	pool      *pool
	publisher *publisher
	places    *consumer.Limiter // for suspects
}

// suspects claims suspects one at a time, and runs each itself.
func (a *apartRunner) suspects() {
	failed := 0
	waits := func() bool { return !a.flow.Closed() && a.flow.SuspectWaits(a.now()) }
	for a.await(a.wait.solo, waits) && a.places.Acquire(a.lease.gone) == nil {
		// Claimed before its turn comes, it would be ours for as long as that takes, and count a crash if we die.
		if a.admission.limited && a.admission.acquire(nil) != nil {
			a.places.Release()
			continue // the drain began
		}
		failed = a.lease.rest(failed, a.runSuspect())
	}
}

// runSuspect has the place for suspects and gives it back when the suspect, if there is one, is not ours any more. One that has
// left its handler still is until it is settled, and one whose claim, COMMIT or release has no answer may be: each would count
// a crash if the next suspect killed the process, and be taken to its limit in its place.
func (a *apartRunner) runSuspect() bool {
	sess, it := a.take(func() *flow.Item { return a.flow.NextSuspect(a.now()) })
	if it == nil {
		a.admission.giveBack()
		a.places.Release()
		return true
	}
	ok, done := a.run(sess, it)
	for a.concludes(done) && a.undecided(it) && (!a.admission.limited || a.admission.acquire(nil) == nil) {
		sess, again := a.take(func() *flow.Item {
			if a.flow.SuspectAgain(&it.Item) {
				return &it.Item
			}
			return nil
		})
		if again == nil {
			a.admission.giveBack()
		} else {
			ok, done = a.run(sess, it)
		}
	}
	select {
	case <-done:
		a.probed(it)
		a.places.Release()
	default: // we are closed, and its handler runs on
		go func() {
			<-done
			a.places.Release()
		}()
	}
	return ok
}

// concludes waits for done. It is false if the engine closes before.
func (a *apartRunner) concludes(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-a.lease.gone.Done():
		return false
	}
}

// take takes what the flow says is next, and prepares for the answer to its settlement; nil: there is nothing.
func (a *apartRunner) take(next func() *flow.Item) (*flow.Session, *Item) {
	a.mu.Lock()
	defer a.unlock()
	f := next()
	if f == nil {
		return nil, nil
	}
	it := f.Of.(*Item)
	it.answered = make(chan struct{})
	return a.flow.Session(), it
}

// run asks for an item and begins to run it if it is ours. When it has left its handler, and its settlement is answered, done
// is closed. Not ok: the ledger did not take the call.
func (a *apartRunner) run(sess *flow.Session, it *Item) (ok bool, done chan struct{}) {
	done = make(chan struct{})
	ok = a.claimer.ask(&claimCall{Claim: flow.Claim{Session: sess, Items: []*flow.Item{&it.Item}}}, true)
	a.mu.Lock()
	var c *chunk
	if ok {
		now := a.now()
		if d := a.flow.Alone(now, &it.Item); d != nil {
			c = a.pool.register(d, now)
			c.admitted = true
		}
	}
	a.unlock()
	if c == nil {
		a.admission.giveBack()
		a.concluded(it)
		close(done)
		return ok, done
	}
	// A goroutine of its own, which a Goexit may end; the slot comes back however it ends.
	a.pool.goroutines.Go(func() {
		defer func() { a.pool.close(c); a.concluded(it); close(done) }()
		a.pool.run(c)
	})
	return true, done
}

// concluded publishes an item's dead letter, if there is one, and waits for the answer to its settlement.
func (a *apartRunner) concluded(it *Item) {
	a.mu.Lock()
	letter, awaited := a.flow.Concluded(&it.Item)
	answered := it.answered
	if !awaited {
		it.answered = nil
	}
	a.mu.Unlock()
	if letter != nil {
		a.publisher.publish(letter)
	}
	if awaited {
		a.concludes(answered)
	}
}

// undecided waits while a suspect may be ours, until it can be asked for again. It is false as soon as it is not ours, or
// leaving will free it. One that the broker has back is asked for by the claim loops, and released, meanwhile.
func (a *apartRunner) undecided(it *Item) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait.undecided = true
	defer func() { a.wait.undecided = false }()
	for {
		undecided, again := a.flow.Undecided(&it.Item)
		if !undecided || again {
			return undecided
		}
		a.wait.solo.Wait()
	}
}

// probes tries one message at a time while the breaker is open.
func (a *apartRunner) probes() {
	failed := 0
	waits := func() bool { return !a.flow.Closed() && a.flow.ProbeWaits(a.now()) }
	for a.await(a.wait.probe, waits) {
		if a.admission.limited && a.admission.acquire(nil) != nil {
			continue // the drain began
		}
		sess, it := a.take(func() *flow.Item { return a.flow.NextProbe(a.now()) })
		if it == nil {
			a.admission.giveBack()
			continue
		}
		ok, done := a.run(sess, it)
		if !a.concludes(done) {
			return
		}
		a.probed(it)
		failed = a.lease.rest(failed, ok)
	}
}

// probed notes what came of the message that was tried, if it was this one.
func (a *apartRunner) probed(it *Item) {
	a.do(func(f *flow.Flow, now time.Duration) { f.Probed(now, &it.Item) })
}
