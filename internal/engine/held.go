package engine

import (
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// How long a message is held whose ordering key is parked, and which is not parked behind it.
const (
	laneRest     = 100 * time.Millisecond
	laneRestMost = 5 * time.Second
)

// waits says whether a run must not begin, since messages before it in its ordering key are parked, and decides what becomes of it:
// it is parked behind them, uncounted, as if its handler had put it off; or it is held, where it cannot be parked, or they will soon be
// over. asked says that the ledger may have been asked, which takes its time: then tooLate is to be asked.
func (h *handlers) waits(c *chunk, r *run) (held, asked bool) {
	lane, asked := h.order.laneOf(r)
	if !asked {
		return false, false
	}
	c.at.Store(int64(h.now()))
	step, wait := h.order.ask(lane)
	if step == flow.LaneRuns {
		return false, true
	}
	it := h.itemOf(r)
	it.complete()
	r.end = &end{step: holding(step, wait)}
	if p := h.parking; step == flow.LaneBehind && p.may(it) {
		dead := h.archives.parked(it)
		if dead.Size() <= p.cfg.Ledger.Limits().Archive && p.follows(it.Key.Scope, dead.Weight()) {
			it.parks()
			r.end.instead, r.end.dead = r.end.step, dead
			r.end.step = behind
			return true, true
		}
	}
	if h.parking == nil {
		h.order.warned.Do(func() {
			h.log.Warn("what is parked of an ordering key holds up what comes behind it, and Options.NoParking is set: a worker without it must run what is parked",
				zap.String("message_id", it.Msg.ID))
		})
	}
	h.parking.isWaitedFor()
	return true, true
}

// tooLate says whether a run may not begin any more, since the worker has paused or drains by now.
func (h *handlers) tooLate(r *run) (is bool) {
	h.do(func(f *flow.Flow, _ time.Duration) {
		if r.item != nil {
			is = !f.MayBegin(&r.item.Item)
		} else {
			is = !f.MayBegin(nil)
		}
	})
	if is {
		r.skip = flow.CalledOff
	}
	return is
}

// behind is the step of a message that is parked behind others: it is theirs when it is due.
var behind = step{settle: ledger.Park, after: time.Microsecond}

// holding is the step of a message that is held until the ledger is asked again.
func holding(is flow.LaneStep, wait time.Duration) step {
	after := laneRest
	if is == flow.LaneBehind || wait > laneRest {
		after = min(max(wait, laneRest), laneRestMost)
	}
	return step{settle: ledger.Release, after: after, narrow: true}
}
