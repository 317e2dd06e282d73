package flow

import (
	"maps"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// logs is what is in hand of each log, by ledger.Position.Log.
type logs map[string]*logState

// of finds or begins the state of a log.
func (l logs) of(log string) *logState {
	s := l[log]
	if s == nil {
		s = &logState{log: log}
		l[log] = s
	}
	return s
}

// join takes an item into the logs in which it stands.
func (l logs) join(it *Item) {
	order, key := it.logs()
	if order != "" {
		it.log = l.of(order)
		it.log.items++
	}
	if key != "" {
		l.of(key).items++
	}
}

// leave takes an item out of the logs in which it stands.
func (l logs) leave(it *Item) {
	if it.log == nil {
		return
	}
	it.log.items--
	l.end(it.log)
	it.log = nil
	if _, key := it.logs(); key != "" {
		s := l[key]
		s.items--
		l.end(s)
	}
}

// stall counts an item that waits, in the logs in which it stands.
func (l logs) stall(it *Item, n int) {
	if it.log == nil {
		return
	}
	it.log.stalled += n
	if _, key := it.logs(); key != "" {
		l[key].stalled += n
	}
}

// drop takes a range out of its log.
func (l logs) drop(r *Range) {
	s := l[r.log]
	s.ranges = slices.DeleteFunc(s.ranges, func(o *Range) bool { return o == r })
	l.end(s)
}

// end forgets a log of which nothing is in hand.
func (l logs) end(s *logState) {
	if s.items == 0 && len(s.ranges) == 0 {
		delete(l, s.log)
	}
}

// names are those of all logs, in order.
func (l logs) names() []string {
	if len(l) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(l))
}

// flows says whether ranges that are not over stand before the newest.
func (l *logState) flows() bool {
	return len(l.ranges) > 1 && l.ranges[len(l.ranges)-2].phase != settling
}

// nextDone says whether a range is the next to be settled: all before it were taken in the same round.
func (l *logState) nextDone(r *Range, round uint64) bool {
	if l.round != round {
		l.round, l.taken = round, 0
	}
	if l.ranges[l.taken] != r {
		return false
	}
	l.taken++
	return true
}

// claimable says whether a range may be claimed: nothing else is in hand of its log but ranges that are ours, or go into
// the same call. The ledger takes one claim of a log at a time, and another would wait for it with all that it asks for.
func (l *logState) claimable() bool { return l.items == 0 && l.claiming == 0 }

// logs are the logs of an item: that in whose order it is, and that in which its key lies, if it is another; empty: none.
func (it *Item) logs() (order, key string) {
	if it.Key.Pos != nil {
		key = it.Key.Pos.Log
	}
	if it.Log == "" || it.Log == key {
		return key, ""
	}
	return it.Log, key
}

// Session is the one in which the range was claimed.
func (r *Range) Session() *Session { return r.sess }

// Token is the ledger's for the claim. It and the session do not change while a part is out: no lock is needed.
func (r *Range) Token() uint64 { return r.token }

// Finished is what the ledger is told of a range that is done.
func (r *Range) Finished() ledger.StretchDone {
	return ledger.StretchDone{
		Ticket: ledger.NewTicket(r.Claim.First.Key.Sum(), r.token), Last: r.Claim.Last, Messages: int64(r.Len),
	}
}

// ready fills in what an item of a range would have by now.
func (r *Range) ready(it *Item) {
	if r.token != 0 {
		it.sess, it.ticket, it.attempt = r.sess, ledger.NewTicket(it.Key.Sum(), r.token), 1
		it.met, it.ranged, it.fresh = true, true, true
	}
}
