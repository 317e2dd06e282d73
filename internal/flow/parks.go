package flow

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// How settlements that park leave the ledger to others.
const (
	parkRests    = 9 // so many times as long as a call took is the rest behind it
	parkRestMost = time.Second
)

// parks are settlements that park. One costs the ledger several times what others do, and no handler waits for its place meanwhile. So
// there is one call of them at a time, and behind it a rest, unless nothing else is to be settled.
type parks struct {
	queue   queue[Settlement]
	calling bool
	rest    *timer // nil: there is none
	hurried bool   // no rests until all are settled: the broker has some of it back, or nothing new begins
}

// queueUp has a settlement sent when it is its turn.
func (f *Flow) queueUp(s Settlement) {
	if s.Kind == ledger.Park {
		f.parks.queue.push(s)
	} else {
		f.settleQ.push(s)
	}
}

// mayPark says whether it is the turn of those that park.
func (f *Flow) mayPark() bool {
	p := &f.parks
	return p.queue.len() > 0 && !p.calling && (p.rest == nil || f.settling+f.settleQ.len()+f.sendable() == 0)
}

// nextParks takes as many as fit into a call.
func (f *Flow) nextParks(now time.Duration, b *Batch) bool {
	f.parks.calling, b.parks, b.began = true, true, now
	b.Items = f.takeSettlements(&f.parks.queue, b.Items)
	b.n = len(b.Items)
	return true
}

// parksOver begins the rest behind a call.
func (f *Flow) parksOver(now time.Duration, b *Batch) {
	p := &f.parks
	p.calling = false
	p.hurried = p.hurried && p.queue.len() > 0
	f.timers.remove(p.rest)
	if p.rest = nil; !p.hurried {
		p.rest = f.timers.add(now+min(parkRests*(now-b.began), parkRestMost), func(time.Duration) { p.rest = nil })
	}
}

// hurryParks has those that wait rest no more.
func (f *Flow) hurryParks() {
	p := &f.parks
	f.timers.remove(p.rest)
	p.rest, p.hurried = nil, true
}
