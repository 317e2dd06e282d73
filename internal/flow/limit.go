package flow

import (
	"math"
	"time"

	"github.com/ackledger/ackledger/internal/adaptive"
)

// Concurrency is how many handlers of the pool may run at once, apart from short tries of fewer.
func (f *Flow) Concurrency() int {
	if f.adapts == nil {
		return f.cfg.Concurrency
	}
	return f.adapts.Now()
}

// slots is how many handlers of the pool may run now.
func (f *Flow) slots() int {
	if f.adapts == nil {
		return f.cfg.Concurrency
	}
	return f.adapts.Allows()
}

// room is how many more handlers of the pool may begin.
func (f *Flow) room() int {
	if f.adapts == nil {
		return math.MaxInt // the pool has no more goroutines
	}
	return f.adapts.Allows() - (len(f.dispatches) - f.beside) - f.handed
}

// Excused says until when attempts that fail say nothing of their messages: most do of late, as they do where there is too much to do. Zero:
// they say something.
func (f *Flow) Excused() time.Duration {
	if f.adapts == nil {
		return 0
	}
	return f.adapts.Excused()
}

// Strained says that most calls fail even with the least of handlers, and since when.
func (f *Flow) Strained() (strained bool, since time.Duration) { return f.strained, f.strainedAt }

// Pressed takes what others say of the load, from 0 to 1, about once a second.
func (f *Flow) Pressed(pressure float64) {
	if f.adapts != nil {
		f.adapts.Press(pressure)
	}
}

// Admitted notes that the handler of a dispatch begins, where handlers are admitted one at a time. Others begin when they are dispatched.
func (f *Flow) Admitted(now time.Duration, d *Dispatch) {
	if f.adapts != nil && !d.beside {
		d.called.mark, d.called.counts = f.adapts.Began(now), true
	}
}

// begins notes a dispatch of the pool.
func (f *Flow) begins(now time.Duration, d *Dispatch) {
	if !f.cfg.LimitStarts {
		f.Admitted(now, d)
	}
}

// Measured says how long the handler of a dispatch was busy, once all its outcomes are told; whole: it was of a whole range.
func (f *Flow) Measured(now time.Duration, d *Dispatch, busy time.Duration, whole bool) {
	if !d.called.counts {
		return
	}
	d.called.counts = false
	if whole {
		d.called.well = d.N
	}
	was := f.strained
	before, _ := f.adapts.Rests()
	f.adapts.Ended(now, d.called.mark, d.sample(busy))
	until, rests := f.adapts.Rests()
	if rests && until != before { // it may begin, or last longer than it was to
		f.timers.add(until, func(now time.Duration) { f.rested(now) })
	}
	switch f.strained = rests || f.strained && f.adapts.Fails(); {
	case f.strained && !was:
		f.strainedAt = now
		f.tellNews(News{What: Strained, After: until - now})
	case was && !f.strained:
		f.tellNews(News{What: Relieved, After: now - f.strainedAt})
	}
}

// rested is the end of a rest.
func (f *Flow) rested(now time.Duration) {
	f.adapts.Wake(now)
	f.cmd.Improved = true
}

// sample is what the limit is told of a dispatch's calls.
func (d *Dispatch) sample(busy time.Duration) adaptive.Sample {
	c := d.called
	s := adaptive.Sample{Calls: c.well + c.failed, Failed: c.failed, InTx: c.inTx}
	switch {
	case s.Calls == 0:
	case d.Together: // one call
		s = adaptive.Sample{Took: busy, Calls: 1, Failed: min(2*c.failed/s.Calls, 1), InTx: min(c.inTx, 1)}
	default:
		s.Took = busy / time.Duration(max(d.applied, 1)) * time.Duration(s.Calls)
	}
	return s
}
