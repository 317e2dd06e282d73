package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// redrive is a copy of a message that has failed, which somebody sends again under a name of its own. It lies in no log, and not in
// the world's queue: it is offered to some process until one has acknowledged it.
type redrive struct {
	of    delivery
	nth   int
	stamp uint64 // the token of the failure, as whoever sent it knows it; 0: it has none, as from a console
	order string
	by    *process // that has it in hand
	after time.Duration
	done  bool
}

// redrives are all that were sent, in order.
type redrives []*redrive

func (r redrives) done() bool {
	for _, d := range r {
		if !d.done {
			return false
		}
	}
	return true
}

// mostRedrives is how many there are in a world.
const mostRedrives = 60

// name is the delivery of a redrive.
func (r *redrive) name() []byte { return fmt.Appendf(nil, "redrive %d of %s", r.nth, r.of.key.ID) }

// redrive sends failed messages again, now and then, some of them twice: with the token of their failure, an older one, or none. It
// does not where there is a budget: the letters of what is pending cannot be purged, so that the budget might stay spent.
func (w *world) redrive() {
	if w.cfg.Moods[redriven]+w.cfg.Moods[reopened]+w.cfg.Moods[outdated] == 0 || w.cfg.Budget > 0 {
		return
	}
	for _, m := range w.facts.all() {
		f := w.facts.of(m)
		rec, err := w.ledger.Get(context.Background(), f.key)
		if err != nil || rec.State != ledger.Failed || len(w.redrives) >= mostRedrives || !w.trouble(redriven) {
			continue
		}
		for range 1 + w.rnd.IntN(2) {
			stamp := [...]uint64{0, rec.Token, rec.Token - 1}[w.rnd.IntN(3)]
			w.send(m, stamp)
		}
	}
	for _, r := range w.redrives {
		if !r.done && (r.by == nil || !r.by.alive) && w.now >= r.after {
			w.offerAgain(r)
		}
	}
	w.after(w.between(10*time.Millisecond, 2*time.Second), w.redrive)
}

// send sends a message again.
func (w *world) send(m message, stamp uint64) {
	if d, is := w.broker.(*desk); is {
		d.again(m)
		return
	}
	r := &redrive{of: delivery{message: m, key: w.facts.of(m).key, first: true, copied: true}, nth: len(w.redrives), stamp: stamp}
	if w.cfg.Keys > 0 && w.rnd.IntN(2) == 0 {
		r.order = fmt.Sprintf("%d/%d", m.partition, w.rnd.IntN(w.cfg.Keys))
	}
	w.redrives = append(w.redrives, r)
	w.note(nil, "is sent again", m, int64(stamp))
}

// offerAgain offers a redrive to a process that has room for it.
func (w *world) offerAgain(r *redrive) {
	r.by = nil
	p := w.workers[w.rnd.IntN(len(w.workers))].process
	if p == nil || !p.joined || p.source == nil || p.draining || p.room() <= 0 {
		return
	}
	r.by = p
	d := r.of
	d.redrive, d.of = r, r
	it := p.item(d, r.order)
	it.StampToken, it.Copy, it.Log = r.stamp, w.cfg.Visibility == 0 || r.stamp > 0, "redrives"
	p.wake(func() { p.offer(it) })
}

// finished is what the process lets go of.
func (r *redrive) finished(now time.Duration, v flow.Verdict) {
	r.by, r.done, r.after = nil, v.Ack, now+v.Again
}

// mayRenew says which of the messages that are claimed have failed.
func (w *world) mayRenew(items []*flow.Item) (failed []bool) {
	if w.cfg.Moods[redriven]+w.cfg.Moods[reopened]+w.cfg.Moods[outdated] == 0 && w.cfg.Callers == 0 {
		return nil
	}
	failed = make([]bool, len(items))
	for i, it := range items {
		failed[i] = w.state(it.Key) == ledger.Failed
	}
	return failed
}

// renewed notes that messages that had failed are to run once more.
func (p *process) renewed(items []*flow.Item, failed []bool) {
	for i := range failed {
		if !failed[i] || p.state(items[i].Key) != ledger.Pending {
			continue
		}
		d, f := of(items[i]), p.facts.of(of(items[i]).message)
		if _, asked := d.of.(*call); !asked && d.redrive == nil && !f.renewed {
			p.breaks(d.message, "what has failed runs again for another delivery alone: %s gets %s", p, d)
		}
		f.final, f.renewed = true, true
		f.failed, f.cut, f.fails, f.deaths = false, false, 0, min(f.deaths, suspect)
	}
}
