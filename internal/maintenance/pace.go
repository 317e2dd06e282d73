package maintenance

import (
	"context"
	"time"
)

// Pace says how many rows the next transaction of a sweep may look at, so that none takes long: half as many after
// one that took longer than it should, slowly more again after others; and how long to rest after it. Pure but for Rest. One
// goroutine uses it, for one pass or for one pass after the other.
type Pace struct {
	batch, rows  int
	aim          time.Duration
	credit, seen int64 // rows that need no rest; rows of this pass
}

// NewPace begins with batch rows, which it never passes, and aims at transactions below aim.
func NewPace(batch int, aim time.Duration) *Pace {
	return &Pace{batch: batch, rows: batch, aim: aim}
}

// Rows is how many rows the next transaction may look at, at least 1.
func (p *Pace) Rows() int { return p.rows }

// Took notes a transaction.
func (p *Pace) Took(d time.Duration) {
	if d > p.aim {
		p.rows = max(p.rows/2, 1)
		return
	}
	p.rows = min(p.rows+p.rows/8+1, p.batch)
}

// Broken notes a transaction that was ended because it took far too long. It says whether a smaller one can be tried.
func (p *Pace) Broken() bool {
	smaller := p.rows > 1
	p.rows = max(p.rows/4, 1)
	return smaller
}

// The sweep's own share of the database while there is little to remove: it rests so many times as long as it worked, so it
// takes a fifth of one connection at most. A rest stays below every lease on the turn to sweep.
const (
	restFactor = 4
	restLimit  = 10 * time.Second
)

// much says whether rows are removed so fast that a sweep must not dawdle: a twentieth of those that it looks at.
func much(removed, rows int64) bool { return removed > 0 && removed*20 >= rows }

// Pause is how long to leave the database to others after a transaction that took d, and removed so many of the rows that
// it looked at: four times as long as it took. Where there is much to remove the sweep goes on at once, to keep up with
// what expires. That is so where a twentieth of the rows goes; and since what expires together lies together, each row
// that was removed buys the way past twenty others.
func (p *Pace) Pause(d time.Duration, removed, rows int64) time.Duration {
	p.seen += rows
	p.credit = max(p.credit+20*removed-rows, 0)
	if much(removed, rows) || p.credit > 0 {
		return 0
	}
	return min(restFactor*d, restLimit)
}

// PassEnded notes the end of a pass. Of what its removals have bought, as much is left as leads through one pass more.
func (p *Pace) PassEnded() {
	p.credit = min(p.credit, p.seen)
	p.seen = 0
}

// Rest waits as Pause says, until ctx ends.
func (p *Pace) Rest(ctx context.Context, d time.Duration, removed, rows int64) error {
	pause := p.Pause(d, removed, rows)
	if pause <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
