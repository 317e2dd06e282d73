package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// maxStalls bounds Health.Stalled.
const maxStalls = 100

// Room implements API.
func (e *Engine) Room() (int, int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opt.MaxHeld - e.s.held, e.s.bytes.Room()
}

// Open implements API.
func (e *Engine) Open() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mayStart() || e.hungry()
}

// Live implements API.
func (e *Engine) Live() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sess != nil && time.Now().Before(e.sess.until)
}

// Changed implements API.
func (e *Engine) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

// Load implements API.
func (e *Engine) Load() Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.load()
}

func (e *Engine) load() Load {
	l := Load{Held: e.s.held, Waiting: e.s.waitCount + e.letters.held}
	for c := range e.chunks {
		l.Running += c.begun() - c.applied
	}
	l.Queued = l.Held - l.Running - l.Waiting
	return l
}

// Pause implements API.
func (e *Engine) Pause() {
	e.mu.Lock()
	e.paused = true
	e.takeBackAll()
	for it := e.all; e.opt.Park && it != nil; { // what is ours and does not begin would be uncertain if we died
		next := it.allNext
		if it.phase == claimed {
			e.release(it)
		}
		it = next
	}
	e.unlock()
}

// Resume implements API.
func (e *Engine) Resume() {
	e.mu.Lock()
	e.paused = false
	e.improved()
	e.unlock()
}

// Health implements API.
func (e *Engine) Health() consumer.Health {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	h := consumer.Health{Alive: true, Ready: e.mayStart()}
	switch {
	case h.Ready:
	case e.up && e.purse.budget.stops:
		h.LastError = e.purse.why()
	case e.mayWork():
		h.LastError = e.brake.why
	case e.lastErr != nil:
		h.LastError = e.lastErr.Error()
	}
	h.Warnings = append(h.Warnings, e.unwise...)
	if e.unswept != nil {
		h.Warnings = append(h.Warnings, e.unswept.Error())
	}
	h.Warnings = append(h.Warnings, e.refusals.warnings(e.cfg.Ledger.Limits().Archive, e.cfg.Retained)...)
	if n := e.s.bytes.Crowd(); n > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%d messages in hand are each larger than a quarter of Options.MaxHeldBytes (%d), and take all of it: "+
			"nothing is polled until one of them is finished", n, e.opt.MaxHeldBytes))
	}
	h.Stalled = slices.Concat(e.brake.stalls(), e.purse.stalls(), e.refusals.stalls())
	e.eachRun(func(c *chunk, r *run) {
		began := e.born.Add(time.Duration(c.at.Load()))
		since := e.born.Add(r.cancelled)
		if r.cancelled == 0 {
			since = began.Add(e.opt.HandlerTimeout)
		}
		stall := consumer.Stall{What: string(r.item.Key.ID), Since: began, Lane: r.item.Lane}
		switch {
		case now.After(since):
			stall.Reason, stall.Why = consumer.StallDeaf, "handler ignores its cancelled context"
			h.Alive = h.Alive && now.Sub(since) <= e.opt.Drain
		case now.Sub(began) > e.opt.SlowAfter:
			stall.Reason, stall.Why = consumer.StallSlow, "handler runs"
		default:
			return
		}
		h.Stalled = append(h.Stalled, stall)
	})
	slices.SortFunc(h.Stalled, func(a, b consumer.Stall) int { return a.Since.Compare(b.Since) })
	h.Stalled = h.Stalled[:min(len(h.Stalled), maxStalls)]
	return h
}
