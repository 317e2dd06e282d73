package sim

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// cluster is a broker that is like Kafka: a log of partitions, a group of members that share them, and its committed offsets.
type cluster struct {
	*world
	parts   []*partition
	members []*member // that may have partitions
}

type partition struct {
	number     int
	log        string
	end        int64
	committed  int64
	owner      *member // nil: nobody
	generation int
	moving     bool // it is being revoked
}

func newCluster(w *world) *cluster {
	c := &cluster{world: w}
	for i := range w.cfg.Partitions {
		c.parts = append(c.parts, &partition{number: i, log: fmt.Sprintf("log-%d", i), end: int64(w.cfg.Messages)})
	}
	return c
}

func (c *cluster) begin() {
	c.after(0, c.assignAll)
	c.after(c.between(time.Second, 3*time.Second), c.rebalance)
}

func (c *cluster) join(p *process) source {
	m := &member{process: p, cluster: c, assignments: map[*partition]*assignment{}}
	c.members = append(c.members, m)
	p.after(100*time.Millisecond, m.commit)
	return m
}

func (c *cluster) done() bool {
	for _, p := range c.parts {
		if p.committed < p.end {
			return false
		}
	}
	return true
}

func (c *cluster) left() (text string) {
	for _, p := range c.parts {
		if p.committed < p.end {
			text += fmt.Sprintf("partition %d of %s is committed up to %d of %d; ", p.number, p.owner, p.committed, p.end)
		}
	}
	return text
}

// assignAll gives partitions without an owner to somebody, now and then.
func (c *cluster) assignAll() {
	var living []*member
	for _, m := range c.members {
		if m.joined {
			living = append(living, m)
		}
	}
	if len(living) > 0 {
		for _, p := range c.parts {
			if p.owner == nil && !p.moving {
				c.assign(p, living[c.rnd.IntN(len(living))])
			}
		}
	}
	c.after(100*time.Millisecond, c.assignAll)
}

func (c *cluster) assign(p *partition, to *member) {
	p.owner, p.moving = to, false
	p.generation++
	c.note(to.process, "gets partition, from", message{p.number, p.committed}, 0)
	generation := p.generation
	to.after(c.latency(), func() {
		if p.owner == to && p.generation == generation {
			to.assigned(p)
		}
	})
}

// rebalance takes a partition from its owner, mostly with its knowledge.
func (c *cluster) rebalance() {
	if p := c.parts[c.rnd.IntN(len(c.parts))]; p.owner != nil && !p.moving && c.trouble(revocation) {
		if c.trouble(unnoticed) {
			c.lost(p)
		} else {
			p.moving = true
			c.note(p.owner.process, "is to give back partition", none, int64(p.number))
			p.owner.revoked(p)
		}
	}
	if c.now < c.cfg.Calm {
		c.after(c.between(50*time.Millisecond, 3*time.Second), c.rebalance)
	}
}

// lost takes a partition from an owner that does not know.
func (c *cluster) lost(p *partition) {
	c.note(p.owner.process, "is not the owner any more of partition", none, int64(p.number))
	of := p.owner
	of.after(c.between(0, 3*time.Second), func() { of.notices(p) })
	p.owner, p.moving = nil, false
	p.generation++
}

func (c *cluster) gone(of *process) {
	for i, m := range c.members {
		if m.process == of {
			c.members = append(c.members[:i], c.members[i+1:]...)
			break
		}
	}
	for _, p := range c.parts {
		if p.owner != nil && p.owner.process == of {
			c.lost(p)
		}
	}
}

// commit is a member's word that all before an offset is finished.
func (c *cluster) commit(p *partition, by *member, generation int, offset int64) {
	if p.owner != by || p.generation != generation {
		return // fenced: it is somebody else's
	}
	if offset < p.committed {
		c.breaks(message{p.number, offset}, "the committed offset only grows: %s commits %d of partition %d after %d", by, offset, p.number, p.committed)
	}
	for o := p.committed; o < offset; o++ {
		c.mustBeTerminal(p.delivery(c.cfg.Keys, o), "is committed")
	}
	if offset > p.committed {
		c.note(by.process, "commits up to", message{p.number, offset}, 0)
	}
	p.committed = offset
}

// key is the identity of a record.
func (p *partition) key(offset int64) ledger.Key {
	return ledger.Key{
		Scope: scopeOf(message{p.number, offset}), ID: fmt.Appendf(nil, "%d-%d", p.number, offset),
		Pos: &ledger.Position{Log: p.log, Epoch: -1, Offset: offset, Prev: offset - 1},
	}
}

// delivery is that of a record, among so many ordering keys.
func (p *partition) delivery(keys int, offset int64) delivery {
	before := offset - int64(keys)
	return delivery{
		message: message{p.number, offset}, key: p.key(offset), before: message{p.number, before}, first: keys == 0 || before < 0,
	}
}
