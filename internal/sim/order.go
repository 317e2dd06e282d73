package sim

import (
	"context"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// In a world with Config.Ordered an operator pauses scopes now and then, or all, and has them go on. Workers are told with their beats.

// orders is what the operator has said.
type orders struct{ since map[string]time.Duration }

// order has the operator say something, until the calm: then all go on.
func (w *world) order() {
	if !w.cfg.Ordered {
		return
	}
	by := ledger.By{Actor: "sim", Reason: "order"}
	scopes := []string{""}
	for i := range w.cfg.Partitions {
		scopes = append(scopes, scopeOf(message{partition: i}))
	}
	if w.orders.since == nil {
		w.orders.since = map[string]time.Duration{}
	}
	over := w.now >= w.cfg.Calm
	for _, scope := range scopes {
		_, holds := w.orders.since[scope]
		switch {
		case holds && (over || w.rnd.IntN(2) == 0):
			w.note(nil, "has them go on: "+scope, none, 0)
			if was, err := w.ledger.Resume(context.Background(), scope, by); err != nil || !was {
				w.breaks(none, "what is paused can go on: %q, %t, %v", scope, was, err)
			}
			delete(w.orders.since, scope)
		case !holds && !over && w.rnd.IntN(3) == 0:
			w.note(nil, "pauses "+scope, none, 0)
			if err := w.ledger.Pause(context.Background(), scope, by); err != nil {
				w.breaks(none, "a scope can be paused: %q, %v", scope, err)
			}
			w.orders.since[scope] = w.now
		}
	}
	if !over {
		w.after(min(w.between(500*time.Millisecond, 15*time.Second), w.cfg.Calm-w.now), w.order)
	}
}

// heeds has a process learn of the pauses that a call has brought which was sent at that time. It is one that begins a session, or a beat.
func (p *process) heeds(sess *session, sent time.Duration) {
	if !p.cfg.Ordered {
		return
	}
	hold := ledger.BoardedOf(sess.owner).Pauses()
	p.known.told = sent
	p.heeding = true
	defer func() { p.heeding = false }()
	p.flow.Ordered(p.now, hold)
	by, stops, since := p.flow.Order()
	if stops && !slices.Contains(hold, by) || since > p.now {
		p.breaks(none, "a pause is an operator's: %s stops for %q since %s", p, by.Scope, since)
	}
	if p.hearAll(); stops != p.known.stopped {
		p.breaks(none, "a pause is told: %s stops: %t", p, stops)
	}
}

// stopped says whether an operator had paused a message's scope before the call was sent that told the process last.
func (p *process) stopped(scope string) bool {
	for _, of := range [...]string{"", scope} {
		if since, holds := p.orders.since[of]; holds && since < p.known.told {
			return true
		}
	}
	return false
}

// heardOrder checks news of pauses.
func (p *process) heardOrder(n *flow.News) (lie bool) {
	was, is := p.known.stopped, n.What == flow.Stopped
	p.known.stopped = is
	if is {
		p.report.Stopped++
	}
	if is && !p.heeding {
		p.report.StoppedByWork++
	}
	return was == is
}
