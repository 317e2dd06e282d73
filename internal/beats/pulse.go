package beats

import "time"

// Pulse follows the confirmed beats of one owner and says when it may declare peers dead: only after its own beats were
// confirmed without a gap for a whole lease, so that after an outage everyone has time to return first. Pure; stores
// keep one an owner, under their own lock.
type Pulse struct {
	lease time.Duration
	since time.Time // first beat of the unbroken chain
	until time.Time // what the last confirmed beat extends to
}

// NewPulse starts a chain with the join, sent at the given time.
func NewPulse(lease time.Duration, sent time.Time) Pulse {
	return Pulse{lease: lease, since: sent, until: sent.Add(lease)}
}

// Confirmed notes a beat that was sent at sent and answered at now. A beat that was answered only after the lease
// before it had run out begins a new chain.
func (p *Pulse) Confirmed(sent, now time.Time) {
	if now.After(p.until) {
		p.since = now
	}
	p.until = sent.Add(p.lease)
}

// Missed notes a beat without an answer: the chain begins anew with the next one.
func (p *Pulse) Missed(now time.Time) { p.since = now }

// MaySeal says whether the chain has lasted a whole lease.
func (p *Pulse) MaySeal(now time.Time) bool {
	return !now.After(p.until) && now.Sub(p.since) >= p.lease
}
