package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// maxStalls bounds Health.Stalled.
const maxStalls = 100

// Room says how many more items and bytes the engine wants; zero or less: stop polling. One large message does not count (see
// Weight).
func (e *Engine) Room() (int, int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	items, _, bytes := e.flow.Held()
	return e.opt.MaxHeld - items, bytes.Room()
}

// Open says whether polling makes sense: joined, ledger reachable, not paused by anybody, not draining.
func (e *Engine) Open() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flow.MayStart() || e.flow.Hungry(e.now())
}

// Concurrency is how many handlers may run at once.
func (e *Engine) Concurrency() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flow.Concurrency()
}

// Live says whether this worker's lease holds, as far as it knows: visibility is extended only while it does.
func (e *Engine) Live() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.flow.Session()
	return s != nil && time.Now().Before(sessionOf(s).until)
}

// Changed returns a channel that is closed when Room, Open or Load may have changed for the better since the call.
func (e *Engine) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

// Load is a snapshot of an engine's work, in items.
type Load struct {
	Held    int // everything in hand
	Running int // in a handler
	Queued  int // neither running nor waiting for a time: they want a slot
	Waiting int // busy elsewhere, in backoff, or for their dead letter
}

// Idle says how many handler slots nothing is queued for.
func (l Load) Idle(concurrency int) int { return max(concurrency-l.Running-l.Queued, 0) }

// Load says what the engine is busy with.
func (e *Engine) Load() Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.load()
}

// load is Load. The kernel's lock is held.
func (e *Engine) load() (l Load) {
	l.Held, l.Waiting, _ = e.flow.Held()
	for c := range e.pool.chunks {
		l.Running += c.begun() - c.dispatch.Applied()
	}
	l.Queued = l.Held - l.Running - l.Waiting
	return l
}

// Health is the worker's own, but for what only the worker knows.
func (e *Engine) Health() consumer.Health {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	h := consumer.Health{Alive: true, Ready: e.flow.Well(), Draining: e.flow.Draining(), Concurrency: e.flow.Concurrency(), Warnings: e.notes.warnings()}
	if by, paused, since := e.flow.Order(); paused {
		h.Stalled = append(h.Stalled, consumer.Stall{What: "the worker", Reason: consumer.StallPaused, Why: pausedBy(by), Since: e.at(since)})
	}
	breaker, since := e.flow.BreakerOpen()
	if breaker {
		h.Stalled = append(h.Stalled, consumer.Stall{What: "the worker", Reason: consumer.StallBreaker, Why: e.tripped, Since: e.at(since)})
	}
	budget, since := e.upkeep.why()
	if budget != "" {
		h.Stalled = append(h.Stalled, consumer.Stall{What: "the worker", Reason: consumer.StallBudget, Why: budget, Since: e.at(since)})
	}
	switch {
	case h.Ready:
	case e.flow.Up() && budget != "":
		h.LastError = budget
	case breaker && e.flow.Up():
		h.LastError = e.tripped
	default:
		h.LastError = e.lease.why()
	}
	h.Warnings = append(h.Warnings, e.pool.handlers.parking.full()...)
	if _, _, bytes := e.flow.Held(); bytes.Crowd() > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%d messages in hand are each larger than a quarter of Options.MaxHeldBytes (%d), and take all of it: "+
			"nothing is polled until one of them is finished", bytes.Crowd(), e.opt.MaxHeldBytes))
	}
	if strained, since := e.flow.Strained(); strained {
		h.Warnings = append(h.Warnings, fmt.Sprintf("more than half of the attempts have failed since %s: such attempts do not count, and handlers start after pauses, for an hour at most",
			e.at(since).UTC().Format(time.RFC3339)))
	}
	e.flow.Kept(func(it *flow.Item, since time.Duration, why error) {
		h.Stalled = append(h.Stalled, consumer.Stall{
			What: string(it.Key.ID), Reason: consumer.StallRefused, Why: fmt.Sprintf("its settlement is refused: %v", why),
			Since: e.at(since), Lane: it.OrderingKey,
		})
	})
	e.pool.eachRun(func(c *chunk, r *run) {
		stall, ok := e.stalled(c, r, now)
		if !ok {
			return
		}
		if stall.Reason == consumer.StallDeaf {
			h.Alive = h.Alive && now.Sub(r.deafSince(c)) <= e.opt.Drain
		}
		h.Stalled = append(h.Stalled, stall)
	})
	slices.SortFunc(h.Stalled, func(a, b consumer.Stall) int { return a.Since.Compare(b.Since) })
	h.Stalled = h.Stalled[:min(len(h.Stalled), maxStalls)]
	return h
}

// stalled says whether a handler takes long, or longer than it may.
func (e *Engine) stalled(c *chunk, r *run, now time.Time) (consumer.Stall, bool) {
	began := e.at(time.Duration(c.at.Load()))
	s := consumer.Stall{Since: began}
	if it := c.itemAt(r.at); it != nil {
		s.What, s.Lane = string(it.Key.ID), it.OrderingKey
	} else {
		s.What = r.id
	}
	switch {
	case now.After(r.deafSince(c)):
		s.Reason, s.Why = consumer.StallDeaf, "handler ignores its cancelled context"
	case now.Sub(began) > e.opt.SlowAfter:
		s.Reason, s.Why = consumer.StallSlow, "handler runs"
	default:
		return s, false
	}
	return s, true
}

// deafSince is from when on a handler that runs ignores that its context has ended.
func (r *run) deafSince(c *chunk) time.Time {
	if r.stop.cancelled != 0 {
		return r.of.born.Add(r.stop.cancelled)
	}
	return r.of.born.Add(time.Duration(c.at.Load()) + r.of.timeout)
}

// pausedBy says in words who paused a worker, and why.
func pausedBy(p ledger.Pause) string {
	if p.By.Reason == "" {
		return "paused by " + p.By.Actor
	}
	return "paused by " + p.By.Actor + ": " + p.By.Reason
}
