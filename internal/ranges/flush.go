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
	if !o.closeOver(ctx, logs) {
		o.ripe.Add(1)
	}
}

// flushOf is flush for logs whose turn to claim the caller has: whatever holds others is not to hold these.
func (o *Owner) flushOf(ctx context.Context, logs []Log) {
	if o.ripe.Load() > 0 {
		o.closeOver(ctx, logs)
	}
}

// closeOver closes what is over in logs, and says whether that was all of it.
func (o *Owner) closeOver(ctx context.Context, logs []Log) bool {
	c := &settling{owner: o, by: map[Log]*logSave{}}
	var mine []Log
	all := true
	o.mu.Lock()
	for _, log := range logs {
		h := o.logs[log]
		if h == nil || !h.over() {
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

// over says whether a range of the log is.
func (h *held) over() bool {
	for _, r := range h.open {
		if r.over() {
			return true
		}
	}
	return false
}
