package memory

import (
	"bytes"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

var _ driver.OutboxTx = (*tx)(nil)

// outbox is what waits to be sent, in lanes.
type outbox struct {
	numbered int64
	lanes    map[laneKey]*lane
}

type laneKey struct {
	target string
	shard  int
}

type lane struct {
	state   driver.LaneState
	waiting []ledger.Queued // by their numbers
}

func (o *outbox) lane(target string, shard int) *lane {
	k := laneKey{target, shard}
	l := o.lanes[k]
	if l == nil {
		if o.lanes == nil {
			o.lanes = map[laneKey]*lane{}
		}
		l = &lane{}
		o.lanes[k] = l
	}
	return l
}

func (t *tx) Enqueue(m *ledger.Outgoing, shard int, at time.Time) error {
	t.outbox.numbered++
	l := t.outbox.lane(m.Target, shard)
	l.waiting = append(l.waiting, ledger.Queued{Outgoing: cloned(m), Num: t.outbox.numbered, At: at})
	return nil
}

// cloned is a message with bytes of its own.
func cloned(m *ledger.Outgoing) ledger.Outgoing {
	c := *m
	c.Key, c.Body, c.Headers = bytes.Clone(m.Key), bytes.Clone(m.Body), slices.Clone(m.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = bytes.Clone(c.Headers[i].Value)
	}
	return c
}

func (t *tx) Waiting(target string, shard int, after int64, n int) (list []ledger.Queued, err error) {
	for _, q := range t.outbox.lane(target, shard).waiting {
		if q.Num > after && len(list) < n {
			q.Outgoing = cloned(&q.Outgoing)
			list = append(list, q)
		}
	}
	return list, nil
}

func (t *tx) Undue(target string, shard int) (list []ledger.Queued, err error) {
	for _, q := range t.outbox.lane(target, shard).waiting {
		if q.Due.After(t.now) {
			list = append(list, q)
		}
	}
	return list, nil
}

func (t *tx) Dequeue(target string, shard int, nums []int64) error {
	l := t.outbox.lane(target, shard)
	l.waiting = slices.DeleteFunc(l.waiting, func(q ledger.Queued) bool { return slices.Contains(nums, q.Num) })
	return nil
}

func (t *tx) Refuse(target string, shard int, num int64, tries int, due time.Time, text string) error {
	l := t.outbox.lane(target, shard)
	for i := range l.waiting {
		if q := &l.waiting[i]; q.Num == num {
			q.Tries += tries
			q.Due, q.Error = due, text
		}
	}
	return nil
}

func (t *tx) Lane(target string, shard int) (driver.LaneState, error) {
	return t.outbox.lane(target, shard).state, nil
}

func (t *tx) PutLane(target string, shard int, s driver.LaneState) error {
	t.outbox.lane(target, shard).state = s
	return nil
}

func (t *tx) ListOutbox(target string, after int64, n int, bodies bool) (list []ledger.Queued, err error) {
	for k, l := range t.outbox.lanes {
		if target != "" && k.target != target {
			continue
		}
		for _, q := range l.waiting {
			if q.Num <= after {
				continue
			}
			q.Outgoing, q.Size = cloned(&q.Outgoing), len(q.Body)
			if !bodies {
				q.Body, q.Headers = nil, nil
			}
			list = append(list, q)
		}
	}
	slices.SortFunc(list, func(a, b ledger.Queued) int { return int(a.Num - b.Num) })
	return list[:min(n, len(list))], nil
}

func (t *tx) OutboxStats() (all []ledger.OutboxStats, err error) {
	by := map[string]*ledger.OutboxStats{}
	for k, l := range t.outbox.lanes {
		for i := range l.waiting {
			q, s := &l.waiting[i], by[k.target]
			if s == nil {
				s = &ledger.OutboxStats{Target: k.target}
				by[k.target] = s
			}
			s.Waiting++
			s.Bytes += int64(len(q.Body))
			if q.Tries > 0 {
				s.Failing++
			}
			s.Oldest = max(s.Oldest, t.now.Sub(q.At))
			s.Untaken = max(s.Untaken, min(t.now.Sub(q.At), t.now.Sub(l.state.Free)))
		}
	}
	for _, s := range by {
		all = append(all, *s)
	}
	return all, nil
}
