package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// kernel is the flow under its lock, and those who wait for what it decides.
type kernel struct {
	born    time.Time // what the flow counts from
	log     *zap.Logger
	tel     *telemetry
	counts  *deliveries
	sink    Sink
	revived func([]flow.Finished) // what the ledger itself has brought is let go of

	excused atomic.Int64 // flow.Excused, for handlers: since born

	mu       sync.Mutex
	flow     *flow.Flow
	changed  chan struct{} // closed when room, load or what may be polled changes for the better; nil: nobody waits
	tellings []*telling    // to be used again
	wait     waits
	idle     int    // goroutines of the pool that wait for work
	woken    int    // of these, those that were told of some
	tripped  string // why the breaker opened last
}

// waits is who waits for what. The kernel's lock guards it.
type waits struct {
	claim, run, settle, solo, rescue, publish, probe, want, spare *sync.Cond

	undecided bool          // solo waits for the end of a doubt
	armed     time.Duration // what the timer waits for
	kick      chan struct{} // the timer is to look again
	look      chan struct{} // a scope is new
	due       chan struct{} // what is due in the ledger is to be looked for
}

// endAll wakes everybody.
func (w *waits) endAll() {
	for _, c := range []*sync.Cond{w.claim, w.run, w.settle, w.solo, w.rescue, w.publish, w.probe, w.want, w.spare} {
		c.Broadcast()
	}
}

// telling is one call of the sink.
type telling struct {
	flow flow.Telling
	done []Finished
}

func newKernel(cfg *Config, f *flow.Flow) *kernel {
	k := &kernel{born: time.Now(), flow: f, sink: cfg.Sink}
	cond := func() *sync.Cond { return sync.NewCond(&k.mu) }
	k.wait = waits{
		claim: cond(), run: cond(), settle: cond(), solo: cond(), rescue: cond(), publish: cond(), probe: cond(), want: cond(), spare: cond(),
		kick: make(chan struct{}, 1), look: make(chan struct{}, 1), due: make(chan struct{}, 1),
	}
	return k
}

// now is what the flow calls the time.
func (k *kernel) now() time.Duration { return time.Since(k.born) }

// at is a time of the flow's as the clock shows it.
func (k *kernel) at(t time.Duration) time.Time { return k.born.Add(t) }

// do lets the flow have an event.
func (k *kernel) do(event func(f *flow.Flow, now time.Duration)) {
	k.mu.Lock()
	event(k.flow, k.now())
	k.unlock()
}

// await waits until take has taken something; false: there is nothing, and the engine closes.
func (k *kernel) await(c *sync.Cond, take func() bool) bool {
	k.mu.Lock()
	defer k.unlock()
	for !take() {
		switch {
		case k.flow.Closed():
			return false
		case k.flow.Pending(): // others wait for what take has brought about
			k.unlock()
			k.mu.Lock()
		default:
			c.Wait()
		}
	}
	return true
}

// unlock ends an event: it carries the flow's commands out, wakes whoever has work now, and tells the sink outside of the
// lock.
func (k *kernel) unlock() {
	for {
		news := k.carryOut()
		k.wakeAll()
		t := k.telling()
		if t == nil && news == nil {
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		for i := range news {
			k.report(&news[i])
		}
		if t == nil {
			return
		}
		k.tell(t)
		k.mu.Lock()
		k.flow.Told(&t.flow)
		if cap(t.done) <= 4*flow.ClaimBatch {
			k.tellings = append(k.tellings, t)
		}
		if !k.flow.Pending() {
			k.mu.Unlock()
			return
		}
	}
}

// carryOut carries out what the flow wants done at once, and returns what is to be said afterwards.
func (k *kernel) carryOut() (news []flow.News) {
	for {
		c := k.flow.End()
		again := len(c.Recall) > 0
		for i := 0; i < len(c.Recall); i++ {
			c.Recall[i].Of.(*chunk).recall(k.flow)
		}
		for _, off := range c.CallOff {
			off.Dispatch.Of.(*chunk).runs[off.At].callOff(causes[off.Cause])
		}
		for _, it := range c.Concluded {
			item := it.Of.(*Item)
			close(item.answered)
			item.answered = nil
		}
		for _, d := range c.Ended {
			if ended, ok := d.Of.(chan struct{}); ok {
				close(ended)
			}
		}
		for _, n := range c.Counted {
			k.tel.deduplicated(n)
			k.counts.add(ledger.Deliveries{Scope: n.Scope, Misses: n.Misses, Hits: n.Hits, Timeouts: n.Timeouts})
		}
		if c.Improved && k.changed != nil {
			close(k.changed)
			k.changed = nil
		}
		if c.Improved && k.flow.Hungry(k.now()) {
			signal(k.wait.due)
		}
		if c.Look {
			signal(k.wait.look)
		}
		for i := range c.News {
			if n := &c.News[i]; n.What == flow.BreakerOpened {
				k.tripped = fmt.Sprintf("the breaker is open: %d of %d messages failed for good within a minute", n.Failed, n.All)
			}
		}
		news = append(news, c.News...)
		c.Reset()
		if !again {
			return news
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wakeAll wakes who has something to do.
func (k *kernel) wakeAll() {
	w, has := &k.wait, k.flow.Has()
	k.wakePool()
	for _, work := range [...]struct {
		is  bool
		who *sync.Cond
	}{
		{has.Claims, w.claim}, {has.Suspects || w.undecided, w.solo}, {has.Probes, w.probe},
		{has.Settlements, w.settle}, {has.Letters, w.publish}, {has.Stuck, w.rescue}, {has.Wanted, w.want}, {has.Spare, w.spare},
	} {
		if work.is {
			work.who.Signal()
		}
	}
	if at, ok := k.flow.NextWake(); ok && at < w.armed {
		signal(w.kick)
	}
}

// wakePool wakes goroutines of the pool for what is ready: one, which wakes the next, if handlers are fast.
func (k *kernel) wakePool() {
	asleep, ready := k.idle-k.woken, k.flow.Ready()
	if asleep <= 0 || ready == 0 {
		return
	}
	n := 1
	if k.flow.SpreadAll() {
		n = min(ready, asleep)
	}
	for range n {
		k.wait.run.Signal()
	}
	k.woken += n
}

// telling takes what the sink is to be told; nil: nothing.
func (k *kernel) telling() *telling {
	n := len(k.tellings)
	if n == 0 {
		k.tellings = append(k.tellings, &telling{})
		n = 1
	}
	t := k.tellings[n-1]
	if !k.flow.Tell(&t.flow) {
		return nil
	}
	k.tellings = k.tellings[:n-1]
	return t
}

// tell tells the sink.
func (k *kernel) tell(t *telling) {
	var revived []flow.Finished
	for i := range t.flow.Finished {
		f := &t.flow.Finished[i]
		if f.Item != nil && f.Item.Parked { // its broker has it no more
			revived = append(revived, *f)
			continue
		}
		if f.Range != nil {
			st := f.Range.Of.(*Stretch)
			k.tel.ackedStretch(st)
			t.done = append(t.done, Finished{Stretch: st, N: f.Range.Len, Verdict: f.Verdict})
			continue
		}
		it := f.Item.Of.(*Item)
		it.gone()
		if f.Verdict.Ack {
			k.tel.acked(it)
		}
		t.done = append(t.done, Finished{Item: it, Verdict: f.Verdict})
	}
	if len(t.done) > 0 {
		k.sink.Finish(t.done)
	}
	if len(revived) > 0 {
		k.revived(revived)
	}
	clear(t.done)
	t.done = t.done[:0]
}

// timer wakes the flow when something is due, until the engine closes.
func (k *kernel) timer(gone <-chan struct{}) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		rest := time.Hour
		k.mu.Lock()
		now := k.now()
		k.flow.Wake(now)
		k.wait.armed = now + rest
		if at, ok := k.flow.NextWake(); ok && at < k.wait.armed {
			k.wait.armed = at
		}
		rest = k.wait.armed - now
		k.unlock()
		t.Reset(rest)
		select {
		case <-t.C:
		case <-k.wait.kick:
		case <-gone:
			return
		}
	}
}

// report says what happened.
func (k *kernel) report(n *flow.News) {
	id := zap.Skip()
	if n.Item != nil {
		id = zap.String("message_id", n.Item.Of.(*Item).Msg.ID)
	}
	switch n.What {
	case flow.Archived:
		k.tel.failed(1, n.Archive.Kind)
		k.log.Warn("message failed for good, archived", id, zap.String("kind", string(n.Archive.Kind)),
			zap.Int("attempt", n.Archive.Attempts), zap.String("error", lastError(n.Archive)))
	case flow.TakenOver:
		k.log.Warn("message was taken over before it was settled", id, zap.Stringer("settlement", n.Kind), zap.Uint64("token", n.Token))
	case flow.Refused:
		k.tel.refused(1, refusedAsIs)
		k.log.Error("the settlement is refused: the message is kept", id, zap.Stringer("settlement", n.Kind), zap.Error(n.Err))
	case flow.BreakerOpened:
		k.log.Error("too many messages fail for good: the worker pauses, and tries one at a time",
			zap.Int("failed", n.Failed), zap.Int("messages", n.All), zap.Duration("after", n.After))
	case flow.BreakerClosed:
		k.log.Info("messages succeed again: the worker goes on", zap.Duration("after", n.After))
	case flow.ProbeFailed:
		k.log.Warn("the message that was tried failed: the worker stays paused",
			zap.String("message_id", string(n.Item.Key.ID)), zap.Duration("after", n.After))
	case flow.BudgetSpent:
		k.log.Error("the budget of archived bytes is spent: the worker pauses until there is room", zap.String("scope", n.Scope),
			zap.Int64("bytes", n.Bytes), zap.Int64("limit", n.Limit))
	case flow.Strained:
		k.log.Warn("more than half of the attempts fail with the least of handlers: they start after pauses, and such attempts do not count",
			zap.Duration("after", n.After))
	case flow.Relieved:
		k.log.Info("most attempts succeed again: handlers start without pauses", zap.Duration("after", n.After))
	case flow.Stopped:
		k.log.Warn("paused by an operator: nothing starts, and nothing is polled", zap.String("scope", n.Pause.Scope),
			zap.String("actor", n.Pause.By.Actor), zap.String("reason", n.Pause.By.Reason))
	case flow.WentOn:
		k.log.Info("no operator pauses the worker any more: it goes on", zap.Duration("after", n.After))
	case flow.BudgetHasRoom:
		k.log.Info("the archive has room again: the worker goes on", zap.Duration("after", n.After))
	}
}

// lastError is why a message failed for good.
func lastError(d *ledger.Archive) string {
	if n := len(d.Errors); n > 0 {
		return d.Errors[n-1].Error
	}
	return ""
}
