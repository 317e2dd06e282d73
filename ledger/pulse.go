package ledger

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

// DBClock estimates the database's clock from its answers, so that a statement can carry a deadline that the database
// itself checks. The estimate is never ahead of the database (as long as the clocks run at the same rate), so that when
// the caller's deadline has passed the database's has passed too.
type DBClock struct {
	db   time.Time // what the database said
	read time.Time // when its answer was here (monotonic)
}

// Note takes the database's clock as of an answer that arrived at read.
func (c *DBClock) Note(db, read time.Time) { c.db, c.read = db, read }

// At returns the database's time when this process' clock will be at t; zero if nothing is known yet.
func (c *DBClock) At(t time.Time) time.Time {
	if c.db.IsZero() {
		return time.Time{}
	}
	return c.db.Add(t.Sub(c.read))
}
