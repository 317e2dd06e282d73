package ranges

import (
	"context"
	"slices"
)

// flush closes ranges that are over, as far as nobody is about to: their last successes were committed with their effects.
// What does not come about now does so with a later call.
func (o *Owner) flush(ctx context.Context) {
	if o.ripe.Swap(0) == 0 {
		return
	}
	c := &settling{owner: o, by: map[Log]*logSave{}}
	var logs []Log
	later := false
	o.mu.Lock()
	for log, h := range o.logs {
		for token, r := range h.open {
			if !r.over() {
				continue
			}
			if c.by[log] == nil {
				if !o.saves.try(log) {
					later = true
					break
				}
				logs = append(logs, log)
			}
			c.touch(h, log, token)
		}
	}
	o.mu.Unlock()
	defer o.saves.give(logs)
	if err := c.save(ctx); later || err != nil || slices.ContainsFunc(c.logs, func(l *logSave) bool { return l.locked }) {
		o.ripe.Add(1)
	}
}
