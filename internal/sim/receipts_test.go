package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/visibility"
)

// Each promise about a queue is told by name when it is broken.
func TestBrokenPromisesOfQueuesAreTold(t *testing.T) {
	for promise, breaks := range map[string]func(x *brokenQueue){
		"what is deleted is finished":                    func(x *brokenQueue) { x.q.delete(x.h.Handle) },
		"one request about a message is under way":       func(x *brokenQueue) { x.r.mustBeAlone(x.h); x.r.mustBeAlone(x.h) },
		"nothing begins on a handle that may be dead":    func(x *brokenQueue) { x.r.now = 6 * time.Second; x.r.mustBeGood(x.h.Handle, "begins") },
		"nothing is hidden on a handle that may be dead": func(x *brokenQueue) { x.r.seen.refused[x.h.Handle] = true; x.asks(1, false) },
		"a message is hidden for a limited time":         func(x *brokenQueue) { x.asks(3601, false) },
		"what is handed back at once meets no poll":      func(x *brokenQueue) { x.r.open = 1; x.asks(0, true) },
		"what is not in hand, or nobody's, is not kept":  func(x *brokenQueue) { x.r.seen.back[x.h] = 1; x.asks(1, false) },
		"what is acknowledged is not only hidden": func(x *brokenQueue) {
			x.r.seen.holds[x.m.message], x.r.seen.acked[x.m.message] = x.h, true
			x.asks(1, false)
		},
		"groups are handed back by one request at a time": func(x *brokenQueue) { x.backs(); x.backs() },
		"a message is deleted by its newest handle":       func(x *brokenQueue) { x.r.mustBeNewest(visibility.Deletion{Hold: x.h, Handle: x.h.Handle}) },
		"when a worker ends nothing is in its table":      func(x *brokenQueue) { x.r.mustHaveHandedBack() },
		"what is in hand is not taken in again":           func(x *brokenQueue) { x.inHand(); x.r.mustBeNew(x.m.message) },
		"what is in hand stays hidden":                    func(x *brokenQueue) { x.inHand(); x.later(); x.q.hand(x.m, x.r) },
		"what is acknowledged is deleted": func(x *brokenQueue) {
			x.r.seen.acked[x.m.message], x.r.seen.newest[x.m.message] = true, x.m.handle()
			x.later()
			x.q.hand(x.m, x.r)
		},
		"what a worker has not handled is in sight when it": func(x *brokenQueue) {
			x.r.table.Forget(x.h)
			x.r.seen.handedBack(x.h, 0, true)
			x.r.mustHaveHandedBack()
		},
		"a group is handed back from its end": func(x *brokenQueue) {
			x.r.seen.lowest[x.m.group] = mark{offset: -1, made: 1}
			x.asks(0, true)
		},
	} {
		t.Run(promise, func(t *testing.T) {
			x := newBrokenQueue()
			breaks(x)
			if b := x.r.broken; b == nil || !strings.HasPrefix(b.Promise, promise) {
				t.Errorf("%+v", b)
			}
		})
	}
}

// brokenQueue is a world with one worker, which has received a message, in which a test breaks a promise.
type brokenQueue struct {
	q *queue
	r *receiver
	m *stored
	h *visibility.Hold
}

func newBrokenQueue() *brokenQueue {
	w := newWorld(Config{Workers: 1, Partitions: 1, Messages: 1, Keys: 1, Concurrency: 1, Visibility: 6 * time.Second})
	k := &worker{world: w}
	k.start()
	x := &brokenQueue{q: w.broker.(*queue)}
	x.q.limit = time.Hour
	x.r = newReceiver(k.process, x.q)
	x.r.disturbed, x.r.frozen = -time.Hour, -time.Hour
	got := x.q.receive(x.r, 1)[0]
	x.m, x.h = got.stored, &visibility.Hold{ID: got.String(), Group: got.group, Handle: got.handle}
	x.r.table.Receive(x.h, 0, 0)
	return x
}

// asks has a change of visibility sent.
func (x *brokenQueue) asks(seconds int32, back bool) {
	x.r.mustBeAsked(visibility.Change{Hold: x.h, Handle: x.h.Handle, Seconds: seconds, Back: back})
}

func (x *brokenQueue) backs() { x.r.mustBeTheOnlyBack([]visibility.Change{{Hold: x.h, Back: true}}) }

func (x *brokenQueue) inHand() {
	x.r.seen.holds[x.m.message] = x.h
	x.r.hands[x.h] = 1
}

// later is when the visibility timeout is over.
func (x *brokenQueue) later() { x.r.now = 7 * time.Second }

// A queue whose messages nobody receives is told, with what is left.
func TestEndlessQueuesAreTold(t *testing.T) {
	_, err := Run(Config{Workers: 0, Partitions: 1, Messages: 1, Visibility: time.Second})
	if err == nil || !strings.Contains(err.Error(), "0-0 is not deleted after 0 receives") {
		t.Errorf("%v", err)
	}
}
