package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// drop counts what a Drop or Drain waits for: items that matched, and calls of the sink under way about such; a Drain also for
// what the broker has back and still runs, or is being settled.
type drop struct {
	left  int
	done  chan struct{}
	grace *time.Timer // nil: there is none, or it is not needed
}

func (d *drop) minus() {
	if d.left--; d.left > 0 {
		return
	}
	close(d.done)
	if d.grace != nil {
		d.grace.Stop() // it may be hours, and holds on to the engine
	}
}

// telling is one call of the sink. Whoever dropped or drains an item of it waits until the sink has returned: then the
// worker may commit, or end.
type telling struct {
	out   []Finished
	drops []*drop // that began meanwhile
}

// done notes that the sink has returned. The engine's lock is held.
func (t *telling) done() {
	for _, f := range t.out {
		if f.Item == nil {
			continue // whoever drops it while the sink is told is in t.drops
		}
		for _, d := range f.Item.rest().drops {
			d.minus()
		}
	}
	for _, d := range t.drops {
		d.minus()
	}
}

// Drop implements API.
func (e *Engine) Drop(match func(*Item) bool, grace time.Duration) <-chan struct{} {
	e.mu.Lock()
	d := e.dropAll(match, false)
	if d.left > 0 {
		d.grace = time.AfterFunc(max(grace, 0), func() {
			e.mu.Lock()
			e.tellRest(d, consumer.ErrRevoked)
			e.unlock()
		})
	}
	e.unlock()
	return d.done
}

// dropAll takes back what matches, and finishes at once what is not ours. A last drop waits until no handler runs and all that
// ran is settled, be it of a message that the broker has back long since: what handlers use, the caller of Run closes next.
func (e *Engine) dropAll(match func(*Item) bool, last bool) *drop {
	e.takeBackAll()
	d := &drop{left: 1, done: make(chan struct{})}
	now := time.Now()
	for it := e.all; it != nil; {
		next := it.allNext
		if !it.told && match(it) {
			it.dropped = true
			r := it.extra()
			r.drops = append(r.drops, d)
			d.left++
			e.letGo(it, now)
		}
		it = next
	}
	for t := range e.telling {
		if slices.ContainsFunc(t.out, func(f Finished) bool { return match(f.sample()) }) {
			t.drops = append(t.drops, d)
			d.left++
		}
	}
	if last {
		d.left++
		e.last = d
		e.noteIdle()
	}
	d.minus()
	return d
}

// noteIdle tells the last drop when no handler runs any more, and nothing is owed to the ledger, of what the broker has back as
// of what it may get back yet: the grace of a drop before this one may end meanwhile. No handler begins after it has begun.
func (e *Engine) noteIdle() {
	if d := e.last; d != nil && e.s.working == 0 {
		e.last = nil
		d.minus()
	}
}

// letGo lets go of an item as far as that can be done at once. One that is being claimed or settled is let go of when
// that is over, one in its handler when that has ended or the grace is over.
func (e *Engine) letGo(it *Item, now time.Time) {
	if it.maybe && !e.draining && it.phase != claiming { // it may be ours, and is asked for until that is known
		e.tell(it, Verdict{Held: true})
		if it.phase == suspect { // it will not run, so it needs no place for that
			e.s.requeue(it)
		}
		return
	}
	switch it.phase {
	case queued, suspect:
		e.finish(it, Verdict{})
	case waiting:
		e.finish(it, Verdict{Again: max(it.due.Sub(now), 0)})
	case claimed:
		e.release(it)
	case settling:
		e.giveUpKept(it)
	}
}

// tellRest gives the broker back what is still in hand of a drop: the grace is over. Running handlers are cancelled.
func (e *Engine) tellRest(d *drop, cause error) {
	for it := e.all; it != nil; it = it.allNext {
		if it.told || !slices.Contains(it.rest().drops, d) {
			continue
		}
		if it.run != nil {
			it.run.callOff(cause)
		}
		e.tell(it, Verdict{Held: true})
	}
}

// DrainError says what still ran when the drain's time was up. It is left to the next owner, uncounted.
type DrainError struct {
	Limit time.Duration
	IDs   []string // of the messages, at most 10
	More  int
}

// Error names the messages.
func (d *DrainError) Error() string {
	s := fmt.Sprintf("drain: must end within %s, still in hand: %s", d.Limit, strings.Join(d.IDs, ", "))
	if d.More > 0 {
		s += fmt.Sprintf(" and %d more", d.More)
	}
	return s
}

// Drain implements API.
func (e *Engine) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.opt.Drain)
	defer cancel()
	e.endStarts()
	e.mu.Lock()
	e.draining = true
	d := e.dropAll(func(*Item) bool { return true }, true)
	e.unlock()
	defer time.AfterFunc(e.opt.Drain-e.opt.Drain/5, e.letters.end).Stop()
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
	}
	stuck := e.cancelRunning()
	select { // a moment for handlers that end when they are told to
	case <-d.done:
		return nil
	case <-time.After(min(time.Second, e.opt.Drain/10)):
	}
	e.mu.Lock()
	e.tellRest(d, consumer.ErrShutdown)
	e.unlock()
	return stuck
}

// cancelRunning cancels the handlers that the drain waited for in vain, and names all that is still in hand.
func (e *Engine) cancelRunning() error {
	e.mu.Lock()
	defer e.unlock()
	stuck := &DrainError{Limit: e.opt.Drain}
	for it := e.all; it != nil; it = it.allNext {
		if it.run != nil {
			it.run.callOff(consumer.ErrShutdown)
		}
		if it.told && !it.works() {
			continue
		}
		if len(stuck.IDs) < 10 {
			stuck.IDs = append(stuck.IDs, string(it.Key.ID))
		} else {
			stuck.More++
		}
	}
	return stuck
}

// Close implements API.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return errors.New("engine: closed already")
	}
	e.closed, e.draining = true, true
	idle := len(e.chunks) == 0
	e.tellRest(e.dropAll(func(*Item) bool { return true }, false), consumer.ErrShutdown) // nothing, after Drain
	for _, c := range []interface{ Broadcast() }{e.toClaim, e.toRun, e.toSettle, e.toSolo, e.toRescue, e.toPublish, e.toProbe} {
		c.Broadcast()
	}
	e.improved()
	e.unlock()
	e.endStarts()
	e.giveUp()
	e.loops.Wait()
	if idle {
		e.pool.Wait()
	}
	e.tel.close()
	err := e.leaveLast(ctx)
	if err == nil {
		e.addCounts(ctx)
	}
	return err
}

// leaveLast leaves the session that was not left yet, although it may be lost to us: else its peers would declare it dead
// and count a crash for each message that it held. It asks until the lease would have ended anyway, at most [maxCall]: one
// answer that comes late is nobody's error.
func (e *Engine) leaveLast(ctx context.Context) error {
	sess := e.unleft
	if sess == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(e.callTimeout(), min(e.opt.Lease, maxCall)))
	defer cancel()
	for n := 1; ; n++ {
		call, cancel := context.WithTimeout(ctx, e.callTimeout())
		err := sess.owner.Leave(call)
		cancel()
		if err == nil || ledger.IsLost(err) {
			return nil
		}
		select {
		case <-time.After(outage(min(n, 2))): // the time is short
		case <-ctx.Done():
			return fmt.Errorf("leave the ledger: %w", err)
		}
	}
}
