package sim

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/promises"
)

// Bounds of what a process has in hand.
const (
	maxHeld    = 200 // messages
	claimAhead = 64
	tellTime   = 200 * time.Millisecond // of a call about what is finished
)

// room is for how many messages there is room.
func (p *process) room() int64 {
	held, _, bytes := p.flow.Held()
	if !p.flow.MayStart() && !p.flow.Hungry(p.now) {
		return 0
	}
	return min(int64(maxHeld-held), bytes.Room()/size)
}

// polls polls soon: the flow says that it makes sense.
func (p *process) polls() {
	if p.polling || p.source == nil {
		return
	}
	p.polling = true
	rest := p.between(time.Millisecond, 20*time.Millisecond)
	if p.trouble(callLate) {
		rest = p.between(0, 3*time.Second)
	}
	p.after(rest, func() {
		p.polling = false
		if !p.draining {
			p.source.poll()
		}
	})
}

// offer takes an item in hand.
func (p *process) offer(it *flow.Item) {
	p.came(of(it))
	p.flow.Offer(p.now, it)
}

// came notes a delivery.
func (p *process) came(d delivery) {
	p.offered++
	p.report.Taken++
	if p.size(d.message) > size {
		p.larges++
	}
	p.known.idle = p.now
	p.hands[d.of]++
	p.facts.of(d.message).key = d.key
	p.note(p, "takes in", d.message, 0)
}

// offerRange takes a range in hand.
func (p *process) offerRange(r *flow.Range) {
	for _, d := range r.Of.(several).deliveries() {
		p.came(d)
	}
	p.flow.OfferRange(p.now, r)
}

// drop takes messages back; then is called when that is done, after the grace at the latest.
func (p *process) drop(match func(delivery) bool, grace time.Duration, then func()) {
	d := p.flow.Drop(p.now, func(it *flow.Item) bool { return !it.Parked && match(of(it)) }, grace, then)
	p.after(grace+time.Millisecond, func() {
		p.after(tellTime+time.Millisecond, func() { p.mustHaveGivenBack(d) }) // it may have been frozen, and tells of it now
	})
}

// mostRounds is how often a shell asks what is next, at one moment.
const mostRounds = 10_000

// several is what a range is of.
type several interface{ deliveries() []delivery }

// pump carries out what the flow decides, until it has decided all.
func (p *process) pump() {
	if p.pumping {
		return
	}
	p.pumping = true
	rounds := 0
	for more := true; more && p.alive && p.broken == nil; rounds++ {
		if rounds == mostRounds {
			p.breaks(none, "the flow comes to rest: %s is still busy after %d rounds", p, rounds)
		}
		more = p.carryOut()
		more = p.tell() || more
		more = p.claim() || more
		more = p.settle() || more
		more = p.dispatch() || more
		more = p.suspects() || more
		more = p.probes() || more
		more = p.publish() || more
		more = p.want() || more
		more = p.spare() || more
	}
	p.pumping = false
	if !p.alive {
		return
	}
	if at, ok := p.flow.NextWake(); ok && (p.armed < 0 || at < p.armed) {
		p.armed = at
		p.after(max(at-p.now, 0), func() {
			p.armed = -1
			p.flow.Wake(p.now)
		})
	}
	if p.flow.Watched() && !p.rescuing {
		p.rescuing = true
		p.after(time.Millisecond, p.rescue)
	}
}

func (p *process) carryOut() bool {
	p.hearAll()
	c := p.flow.End()
	more := len(c.Recall)+len(c.Ended)+len(c.Concluded) > 0
	for i := 0; i < len(c.Recall); i++ {
		c.Recall[i].Of.(*chunk).recall()
	}
	for _, off := range c.CallOff {
		off.Dispatch.Of.(*chunk).callOff(off.At)
	}
	for _, it := range c.Concluded {
		p.concluded(it)
	}
	for _, n := range c.Counted {
		p.counted(n)
	}
	ended := slices.Clone(c.Ended)
	if c.Improved {
		p.polls()
	}
	if c.Look {
		p.weigh()
	}
	c.Reset()
	for _, d := range ended {
		if then, ok := d.Of.(func()); ok {
			then()
		}
	}
	return more
}

// tell is the worker's side: what is acknowledged is finished in its partition.
func (p *process) tell() bool {
	t := &flow.Telling{}
	if n := len(p.tellings); n > 0 {
		t, p.tellings = p.tellings[n-1], p.tellings[:n-1]
	}
	if !p.flow.Tell(t) {
		p.tellings = append(p.tellings, t)
		return false
	}
	p.telling++
	if p.trouble(callLate) {
		p.after(p.between(0, tellTime), func() { p.told(t) })
	} else {
		p.told(t)
	}
	return true
}

// told is the worker's call about what is finished.
func (p *process) told(t *flow.Telling) {
	for i := range t.Finished {
		f := &t.Finished[i]
		if f.Item != nil {
			if !f.Verdict.Ack {
				p.mustHaveCalledOff(f.Item)
			}
			p.finished(of(f.Item), f.Verdict)
			continue
		}
		for _, d := range f.Range.Of.(several).deliveries() {
			p.finished(d, f.Verdict)
		}
	}
	p.telling--
	p.flow.Told(t)
	p.tellings = append(p.tellings, t)
}

// finished is a delivery that the flow lets go of.
func (p *process) finished(d delivery, v flow.Verdict) {
	p.offered--
	if p.size(d.message) > size {
		p.larges--
	}
	_, cared := d.of.(*care)
	if cared {
		p.cared--
	}
	if v.Again > 0 && !v.Ack && !cared && p.cfg.nobodyTakes() && (p.cfg.HoldMax == 0 || v.Again <= p.cfg.HoldMax) {
		p.breaks(d.message, "what waits for a short while is held: %s gives back %s for %s", p, d, v.Again)
	}
	p.hands[d.of]--
	p.letsGo(d)
	if v.Ack {
		p.note(p, "acknowledges", d.message, 0)
		p.mustBeTerminal(d, promises.AckedFinished)
	} else {
		p.note(p, "gives back", d.message, int64(v.Again))
	}
	switch {
	case d.redrive != nil:
		d.redrive.finished(p.now, v)
	case !d.copied:
		p.source.finished(d, v)
	}
}
