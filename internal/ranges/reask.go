package ranges

import (
	"context"
	"fmt"
	"slices"
)

// alone makes sure that nothing is settled in a log during a look at messages that lie in this owner's own ranges there: it asks for them
// again since an answer was lost, and the look takes them out of their ranges. What is to be so in these ranges is written
// before, so that the look goes by it. Until the look is answered its messages are in doubt: they may have rows now. It
// returns the end of it.
func (c *claiming) alone(ctx context.Context) (release func(), err error) {
	o, logs := c.owner, c.ours()
	if len(logs) == 0 {
		return func() {}, nil
	}
	if err := o.saves.take(ctx, logs); err != nil {
		return nil, fmt.Errorf("ledger: the claim was not sent: %w", err)
	}
	release = func() { o.saves.give(logs) }
	s := &settling{owner: o, by: map[Log]*logSave{}}
	o.mu.Lock()
	for l, r := range c.own() {
		if r.dirty {
			s.touch(l.held, l.log, r.Token)
		}
	}
	o.mu.Unlock()
	if err := s.save(ctx); err != nil {
		release()
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for l, r := range c.own() {
		if r.dirty { // an InTx holds it
			l.answers = make([]Answer, len(l.asks))
			continue
		}
		r.opened.altered = true
		left := r.settled()
		for i := range l.asks {
			if at := l.asks[i].Offset; r.Has(at) && !left.Has(at) {
				l.doubt.Add(Span{at, at + 1})
				left.Add(Span{at, at + 1})
			}
		}
		r.known = r.known || left.Covers(r.Span) // the look may close it
	}
	return release, nil
}

// ours are the logs in which messages that are to be looked for lie in ranges of ours. No other call opens any there.
func (c *claiming) ours() (logs []Log) {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	for l := range c.own() {
		logs = append(logs, l.log)
	}
	return sortLogs(logs)
}

// own yields the ranges of ours in which messages lie that are to be looked for. The owner is locked.
func (c *claiming) own() func(func(*logClaim, *open) bool) {
	return func(yield func(*logClaim, *open) bool) {
		for _, l := range c.logs {
			if l.answers != nil {
				continue
			}
			hull := l.hull()
			for _, r := range l.open {
				if r.Meets(hull) && r.asked(l.asks) && !yield(l, r) {
					return
				}
			}
		}
	}
}

func (r *open) asked(asks []Ask) bool {
	return slices.ContainsFunc(asks, func(a Ask) bool { return r.Has(a.Offset) })
}
