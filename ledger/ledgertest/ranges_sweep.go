package ledgertest

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// rangesFailedStays: the row of a message that failed for good went with its archived delivery, and the segment around it
// said that it had succeeded, so that a dead letter that was kept for longer was dropped as done.
func rangesFailedStays(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	m := e.at(0, 0, -1)
	m.Window = shortWindow
	dead := fail(e.want(o, m, ledger.Run), m)
	dead.Dead.Keep = shortWindow
	e.holds(o, dead)
	e.hold(o, e.allRun(o, e.span(1, 20)), succeed)
	e.pass(2 * shortWindow)
	for range 2 { // the archive, then what depends on it
		e.sweep(time.Millisecond)
	}
	r, err := e.Get(e.ctx, m.Key)
	if err != nil || r.State != ledger.Failed || len(r.Archived) != 0 {
		e.Fatalf("a failed message whose archived delivery has expired: %s, %d archived, %v", summary(r), len(r.Archived), err)
	}
	if s := e.scopeStats(); s.Failed != 1 || s.Succeeded != 19 {
		e.Errorf("%+v", s)
	}
	again := m
	again.Ranged, again.StampToken, again.Delivery = false, dead.Ticket.Token(), []byte("from a dead-letter topic")
	e.holds(o, succeed(e.want(o, again, ledger.Run)))
}
