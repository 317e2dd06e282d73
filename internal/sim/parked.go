package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// drawParks draws whether retries may wait in the ledger. It draws by itself, so that no other world changes.
func drawParks(seed uint64) bool {
	return rand.New(rand.NewPCG(seed, mix(0x9a, 0x4c))).IntN(100) < 30
}

// parks says whether a process of the world has retries wait in the ledger: callers are answered, and a ledger without a clock parks
// nothing.
func (w *world) parks() bool {
	return w.cfg.Parks && w.cfg.Callers == 0 && !w.cfg.Watched
}

// care is a copy of a message that the ledger itself has brought.
type care struct {
	scope string
	name  []byte // the delivery that was parked
}

// parkOne has a retry wait in the ledger, now and then. If that is refused, it is released, or has failed for good where its broker would
// forget it meanwhile.
func (c *chunk) parkOne(r *running, o *flow.Outcome) {
	p, set := c.p, o.More
	lane := p.laned(r.it) // a copy that stands in no order would take the message out of its own
	if !p.parks() || r.it.Parked || lane == nil && p.cfg.Keys > 0 || r.it.Invalid != nil || !set.Count && set.After == 0 || p.rnd.IntN(3) == 0 {
		return
	}
	park := *set
	park.Kind, park.After = ledger.Park, p.between(time.Millisecond, 3*time.Second)
	park.Dead = r.by.archive(r.it, "", r.attempt)
	if lane != nil {
		park.Lane = lane.parksIn(p.facts.of(of(r.it).message))
	}
	o.More, o.Else = &park, set
}

// looks looks for what is due, again and again: it is offered like any delivery. What is said of a look that is not answered nobody hears.
func (p *process) looks() {
	p.after(p.between(20*time.Millisecond, time.Second), p.looks)
	most := int(min(p.room(), 5))
	if most <= 0 && p.cared == 0 && p.cfg.Keys > 0 && p.flow.MayWork() { // all that is in hand may wait for it
		most = 1
	}
	if !p.joined || p.draining || most <= 0 {
		return
	}
	if p.flow.Hungry(p.now) { // for one to try
		most = 1
	}
	scope := scopeOf(message{partition: p.rnd.IntN(p.cfg.Partitions)})
	ask := ledger.DueRequest{Scope: scope, Most: 1 + p.rnd.IntN(most), Bytes: 1 << 20, Hide: p.hours(p.between(10*time.Millisecond, lease))}
	var reply ledger.DueReply
	p.request("a look for what is due", p.reach(timeout), func() (err error) {
		reply, err = p.ledger.Due(context.Background(), ask)
		return err
	}, func(err error) {
		if err != nil || p.draining {
			return
		}
		for i := range reply.Messages {
			p.revive(&reply.Messages[i])
		}
	})
}

// revive offers a message that was parked.
func (p *process) revive(parked *ledger.Parked) {
	m, known := message{}, false
	for _, o := range p.facts.all() {
		if key := p.facts.of(o).key; key.ID != nil && key.Sum() == parked.Key.Sum() {
			m, known = o, true
		}
	}
	if !known || string(parked.Body) != string(parked.Key.ID) {
		p.breaks(m, "what was parked comes back whole: %v with body %q", parked.Key, parked.Body)
		return
	}
	d := delivery{message: m, key: parked.Key, first: true, copied: true}
	d.of = &care{parked.Key.Scope, parked.Delivery}
	if f := p.facts.of(m); parked.Lane != nil {
		d.first, d.before = !f.follows, f.before
	}
	it := p.item(d, "")
	it.Parked, it.Copy, it.Ranged = true, true, false
	p.report.Revived++
	p.cared++
	p.offer(it)
}

// inCare says whether the ledger has a message whole, which is pending.
func (w *world) inCare(key ledger.Key) bool {
	if !w.parks() {
		return false
	}
	rec, err := w.ledger.Get(context.Background(), key)
	return err == nil && rec.State == ledger.Pending && rec.Parked != nil && string(rec.Parked.Body) == string(key.ID)
}

// noneParked says whether nothing is parked any more.
func (w *world) noneParked() bool {
	for i := range w.cfg.Partitions {
		s, err := w.ledger.ParkedIn(context.Background(), scopeOf(message{partition: i}))
		if err != nil {
			w.breaks(none, "what is parked can be counted: %v", err)
		}
		if s.Messages > 0 {
			return false
		}
	}
	return true
}

// mustHaveParkedNothing checks the end of a world.
func (w *world) mustHaveParkedNothing() {
	if w.parks() && !w.noneParked() {
		w.breaks(none, "with a message's end what is parked of it goes: something is parked")
	}
}

// String is for people.
func (c *care) String() string { return fmt.Sprintf("%s in the ledger's care", c.name) }
