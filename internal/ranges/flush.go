package ranges

import (
	"context"
	"maps"
	"slices"
)

// flush closes ranges that are over, as far as nobody is about to: their last successes were committed with their effects.
// What does not come about now does so with a later call.
func (o *Owner) flush(ctx context.Context) {
	if o.ripe.Swap(0) == 0 {
		return
	}
	o.mu.Lock()
	logs := slices.Collect(maps.Keys(o.logs))
	o.mu.Unlock()
	if !o.closeOver(ctx, logs, 1) {
		o.ripe.Add(1)
	}
}

// manyOver is how many ranges of a log are over until a claim of the log closes them first: it waits for that meanwhile, and to close
// many costs what it costs to close one.
const manyOver = 16

// flushOf is flush for logs whose turn to claim the caller has: whatever holds others is not to hold these.
func (o *Owner) flushOf(ctx context.Context, logs []Log) {
	if o.ripe.Load() > 0 {
		o.closeOver(ctx, logs, manyOver)
	}
}

// closeOver closes what is over in those of the logs that have so many ranges over at least, and says whether that was all of it.
func (o *Owner) closeOver(ctx context.Context, logs []Log, least int) bool {
	c := &settling{owner: o, by: map[Log]*logSave{}}
	var mine []Log
	all := true
	o.mu.Lock()
	for _, log := range logs {
		h := o.logs[log]
		if h == nil || h.over() < least {
			continue
		}
		if !o.saves.try(log) { // later
			all = false
			continue
		}
		mine = append(mine, log)
		for token, r := range h.open {
			if r.over() {
				c.touch(h, log, token)
			}
		}
	}
	o.mu.Unlock()
	defer o.saves.give(mine)
	err := c.save(ctx)
	return all && err == nil && !slices.ContainsFunc(c.logs, func(l *logSave) bool { return l.locked })
}

// over is how many ranges of the log are.
func (h *held) over() (n int) {
	for _, r := range h.open {
		if r.over() {
			n++
		}
	}
	return n
}
