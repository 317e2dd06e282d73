package ledger

import (
	"context"
	"time"
)

// SweepPace says how many rows the next transaction of a sweep may look at, so that none takes long: half as many after
// one that took longer than it should, slowly more again after others. Pure but for Rest; stores keep one a pass.
type SweepPace struct {
	batch, rows int
	aim         time.Duration
}

// NewSweepPace begins with batch rows, which it never passes, and aims at transactions below aim.
func NewSweepPace(batch int, aim time.Duration) *SweepPace {
	return &SweepPace{batch: batch, rows: batch, aim: aim}
}

// Rows is how many rows the next transaction may look at, at least 1.
func (p *SweepPace) Rows() int { return p.rows }

// Took notes a transaction.
func (p *SweepPace) Took(d time.Duration) {
	if d > p.aim {
		p.rows = max(p.rows/2, 1)
		return
	}
	p.rows = min(p.rows+p.rows/8+1, p.batch)
}

// Broken notes a transaction that was ended because it took far too long. It says whether a smaller one can be tried.
func (p *SweepPace) Broken() bool {
	smaller := p.rows > 1
	p.rows = max(p.rows/4, 1)
	return smaller
}

// Rest leaves the database to others after a transaction that took d and removed few of the rows it looked at: for as
// long again. Where there is much to remove the sweep goes on at once, to keep up with what expires.
func (p *SweepPace) Rest(ctx context.Context, d time.Duration, removed, rows int64) error {
	if removed > 0 && removed*20 >= rows {
		return ctx.Err()
	}
	timer := time.NewTimer(min(d, p.aim))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
