package sim

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
)

// broker is a log of partitions, a group of workers that share them, and its committed offsets.
type broker struct {
	w     *world
	parts []*partition
}

type partition struct {
	number     int
	log        string
	end        int64
	committed  int64
	owner      *process // nil: nobody
	generation int
	moving     bool // it is being revoked
}

func newBroker(w *world) *broker {
	b := &broker{w: w}
	for i := range w.cfg.Partitions {
		b.parts = append(b.parts, &partition{number: i, log: fmt.Sprintf("log-%d", i), end: int64(w.cfg.Messages)})
	}
	return b
}

func (b *broker) done() bool {
	for _, p := range b.parts {
		if p.committed < p.end {
			return false
		}
	}
	return true
}

// left says what is not done.
func (b *broker) left() (text string) {
	for _, p := range b.parts {
		if p.committed < p.end {
			text += fmt.Sprintf("partition %d of %s is committed up to %d of %d; ", p.number, p.owner, p.committed, p.end)
		}
	}
	return text
}

// living are the processes that may have partitions.
func (b *broker) living() (all []*process) {
	for _, w := range b.w.workers {
		if w.process != nil && w.process.joined {
			all = append(all, w.process)
		}
	}
	return all
}

// assignAll gives partitions without an owner to somebody, now and then.
func (b *broker) assignAll() {
	if living := b.living(); len(living) > 0 {
		for _, p := range b.parts {
			if p.owner == nil && !p.moving {
				b.assign(p, living[b.w.rnd.IntN(len(living))])
			}
		}
	}
	b.w.after(100*time.Millisecond, b.assignAll)
}

func (b *broker) assign(p *partition, to *process) {
	p.owner, p.moving = to, false
	p.generation++
	b.w.step("%s gets partition %d from offset %d", to, p.number, p.committed)
	generation := p.generation
	to.after(b.w.latency(), func() {
		if p.owner == to && p.generation == generation {
			to.assigned(p)
		}
	})
}

// rebalance takes a partition from its owner, mostly with its knowledge.
func (b *broker) rebalance() {
	if p := b.parts[b.w.rnd.IntN(len(b.parts))]; p.owner != nil && !p.moving && b.w.trouble(revocation) {
		if b.w.trouble(unnoticed) {
			b.lost(p)
		} else {
			p.moving = true
			b.w.step("%s is to give partition %d back", p.owner, p.number)
			p.owner.revoked(p)
		}
	}
	if b.w.now < b.w.cfg.Calm {
		b.w.after(b.w.between(50*time.Millisecond, 3*time.Second), b.rebalance)
	}
}

// lost takes a partition from an owner that does not know.
func (b *broker) lost(p *partition) {
	b.w.step("partition %d is taken from %s", p.number, p.owner)
	of := p.owner
	of.after(b.w.between(0, 3*time.Second), func() { of.notices(p) })
	p.owner, p.moving = nil, false
	p.generation++
}

// gone takes all partitions from a process that has ended.
func (b *broker) gone(of *process) {
	for _, p := range b.parts {
		if p.owner == of {
			b.lost(p)
		}
	}
}

// commit is a worker's word that all before an offset is finished.
func (b *broker) commit(p *partition, by *process, generation int, offset int64) {
	if p.owner != by || p.generation != generation {
		return // fenced: it is somebody else's
	}
	if offset < p.committed {
		b.w.breaks("the committed offset only grows: %s commits %d of partition %d after %d", by, offset, p.number, p.committed)
	}
	for o := p.committed; o < offset; o++ {
		b.w.mustBeTerminal(p, o, "is committed")
	}
	if offset > p.committed {
		b.w.step("%s commits offset %d of partition %d", by, offset, p.number)
	}
	p.committed = offset
}

// assignment is what a process has of a partition.
type assignment struct {
	part       *partition
	generation int
	fetch      int64 // the next offset to be delivered
	tracker    *offsets.Tracker
	seqs       map[int64]uint64
}

// key is the identity of a record.
func (p *partition) key(offset int64) ledger.Key {
	return ledger.Key{
		Scope: scope, ID: fmt.Appendf(nil, "%d-%d", p.number, offset),
		Pos: &ledger.Position{Log: p.log, Epoch: -1, Offset: offset, Prev: offset - 1},
	}
}

// item makes an item of a record.
func (a *assignment) item(w *world, offset int64) *flow.Item {
	it := &flow.Item{Size: size, Of: delivery{of: a, offset: offset}}
	it.Key, it.Ranged = a.part.key(offset), w.cfg.Ranged
	it.Fingerprint = ledger.BodyFingerprint(it.Key.ID)
	if k := w.cfg.Keys; k > 0 {
		it.OrderingKey = fmt.Sprintf("%d/%d", a.part.number, offset%int64(k))
	}
	return it
}

// delivery is what an item is of.
type delivery struct {
	of     *assignment
	offset int64
	copied bool // it is none of the log's own
}

// size is that of each message.
const size = 100

func (d delivery) String() string { return fmt.Sprintf("%d-%d", d.of.part.number, d.offset) }

func of(it *flow.Item) delivery { return it.Of.(delivery) }
