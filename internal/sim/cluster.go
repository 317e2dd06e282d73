package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// cluster is a broker that is like Kafka: a log of partitions, a group of members that share them, and its committed offsets.
type cluster struct {
	*world
	parts   []*partition
	members []*member // that may have partitions
	last    bool      // the last records have been written
	span    int       // see Config.Span
	held    int
}

func newCluster(w *world) *cluster {
	c := &cluster{world: w, span: cmp.Or(w.cfg.Span, math.MaxInt/2), held: cmp.Or(w.cfg.Held, maxHeld)}
	for i := range w.cfg.Partitions {
		c.parts = append(c.parts, newPartition(w, i))
	}
	return c
}

func (c *cluster) begin() {
	c.after(0, c.assignAll)
	c.after(c.between(time.Second, 3*time.Second), c.rebalance)
	c.after(c.between(100*time.Millisecond, 3*time.Second), c.failover)
	c.after(c.cfg.Calm+time.Second, c.restart)
	if c.cfg.Moods[outdated] > 0 {
		c.after(c.between(time.Second, 10*time.Second), c.retain)
	}
}

func (c *cluster) join(p *process) source {
	m := &member{process: p, cluster: c, table: offsets.NewTable(c.span, c.held, int64(c.held)*size)}
	c.members = append(c.members, m)
	p.after(100*time.Millisecond, m.commitNow)
	return m
}

func (c *cluster) done() bool {
	if slices.ContainsFunc(c.parts, func(p *partition) bool { return !p.finished() }) {
		return false
	}
	c.mustHaveRead()
	if c.cfg.Moods[outdated] == 0 || !c.cfg.Hours || c.last || c.now >= c.cfg.Calm {
		return true
	}
	c.last = true
	for _, p := range c.parts { // all that there was is dropped, and one more tells the ledger
		c.drop(p, p.next)
		p.write(c.world)
		if p.owner != nil {
			p.owner.after(c.latency(), p.owner.polls)
		}
	}
	return false
}

func (c *cluster) left() (text string) {
	for _, p := range c.parts {
		if !p.finished() {
			text += fmt.Sprintf("partition %d of %s is committed up to %d of %d; ", p.number, p.owner, p.committed.offset, p.next)
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
	p.owner, p.moving, p.rolledBack = to, false, false
	p.generation++
	c.note(to.process, "gets partition, from", message{p.number, p.committed.offset}, int64(p.committed.epoch))
	generation, at := p.generation, p.committed
	to.after(c.latency(), func() {
		if p.owner == to && p.generation == generation {
			to.assigned(p, at)
		}
	})
}

// rebalance takes a partition from its owner, mostly with its knowledge.
func (c *cluster) rebalance() {
	if p := c.parts[c.rnd.IntN(len(c.parts))]; p.owner != nil && !p.moving && c.trouble(revocation) {
		if c.trouble(unnoticed) {
			c.lost(p)
		} else {
			c.revoke(p)
		}
	}
	if c.now < c.cfg.Calm {
		c.after(c.between(50*time.Millisecond, 3*time.Second), c.rebalance)
	}
}

func (c *cluster) revoke(p *partition) {
	p.moving = true
	c.note(p.owner.process, "is to give back partition", none, int64(p.number))
	p.owner.revoked(p)
}

// restart has who does not know that its commits were forgotten begin again: nothing else would tell it.
func (c *cluster) restart() {
	for _, p := range c.parts {
		if p.rolledBack && p.owner != nil && !p.moving {
			c.revoke(p)
		}
	}
	c.after(time.Second, c.restart)
}

// failover has the broker of a partition, or that of the group's offsets, fail and lose what was written last.
func (c *cluster) failover() {
	p := c.parts[c.rnd.IntN(len(c.parts))]
	if left := p.from(p.begin); c.trouble(truncated) && len(left) > 0 {
		p.truncate(c.world, left[c.rnd.IntN(len(left))].offset)
		if p.owner != nil {
			p.owner.after(c.latency(), p.owner.polls)
		}
	}
	if c.trouble(forgotten) && len(p.older) > 0 {
		n := c.rnd.IntN(len(p.older))
		p.committed, p.older = p.older[n], p.older[:n]
		p.sure, p.rolledBack = min(p.sure, p.kept(p.committed)), true
		c.note(nil, "forgets commits, back to", message{p.number, p.committed.offset}, 0)
	}
	if c.now < c.cfg.Calm {
		c.after(c.between(100*time.Millisecond, 10*time.Second), c.failover)
	}
}

// retain drops what is old at the beginning of a log: of what is finished and committed.
func (c *cluster) retain() {
	if p := c.parts[c.rnd.IntN(len(c.parts))]; c.trouble(outdated) {
		to := p.begin
		for _, r := range p.from(to) {
			if r.offset >= p.committed.offset || !r.control && (!c.terminal(r.message) || c.state(r.key) == ledger.Pending) || c.rnd.IntN(10) == 0 {
				break
			}
			to = r.offset + 1
		}
		if to > p.begin {
			c.drop(p, to)
		}
	}
	if c.now < c.cfg.Calm {
		c.after(c.between(100*time.Millisecond, 5*time.Second), c.retain)
	}
}

// drop drops what lies before an offset. Copies of some of it come, before the ledger may forget it and after.
func (c *cluster) drop(p *partition, to int64) {
	keeps := c.seconds(ranges.TrimAfter)
	for _, r := range p.from(p.begin) {
		if r.offset < to && !r.control && c.cfg.Budget == 0 && len(c.redrives) < mostRedrives && c.rnd.IntN(8) == 0 {
			c.send(r.message, 0)
			c.redrives[len(c.redrives)-1].after = c.now + c.between(0, min(2*keeps, time.Minute))
		}
	}
	p.begin = to
	c.note(nil, "begins at", message{p.number, to}, 0)
	c.after(keeps, func() { c.outdate(p, to) })
}

// outdate notes that the ledger may forget messages, of all epochs: their log has begun behind them for long enough. What waits to be run
// again keeps its row, and the attempts that failed.
func (c *cluster) outdate(p *partition, begin int64) {
	for _, m := range c.facts.all() {
		f := c.facts.of(m)
		if m.partition != p.number || f.key.Pos == nil || f.key.Pos.Offset >= begin || f.old {
			continue
		}
		c.anew++
		f.old, f.final, f.renewed, f.gone = true, true, true, true
		f.cut, f.effects, f.running = false, 0, nil
		c.twin.forget(delivery{message: m, key: f.key})
	}
}

// lost takes a partition from an owner that does not know.
func (c *cluster) lost(p *partition) {
	c.note(p.owner.process, "is not the owner any more of partition", none, int64(p.number))
	of, generation := p.owner, p.generation
	of.after(c.between(0, 3*time.Second), func() { of.notices(p, generation) })
	p.owner, p.moving = nil, false
	p.generation++
}

func (c *cluster) gone(of *process) {
	c.members = slices.DeleteFunc(c.members, func(m *member) bool { return m.process == of })
	for _, p := range c.parts {
		if p.owner != nil && p.owner.process == of {
			c.lost(p)
		}
	}
}

// What a broker says to a commit that it does not take.
var (
	errFenced      = errors.New("sim: it is another member's")
	errCoordinator = errors.New("sim: the coordinator moves")
)

// commit is a member's word that all before an offset is finished.
func (c *cluster) commit(p *partition, a *assignment, to offsetEpoch) error {
	by := a.member
	switch {
	case p.owner != by || p.generation != a.generation:
		return errFenced
	case c.trouble(uncommitted):
		return errCoordinator
	case to.offset < p.sure:
		c.breaks(none, promises.OffsetGrows+": %s commits %d of partition %d after %d", by, to.offset, p.number, p.sure)
	}
	for _, r := range p.records {
		if r.offset < to.offset && (to.epoch < 0 || r.epoch <= to.epoch) && !r.control && !r.checked {
			c.mustBeTerminal(r.delivery, "what is committed is finished")
			r.checked = true
		}
	}
	c.note(by.process, "commits up to", message{p.number, to.offset}, int64(to.epoch))
	p.older = append(p.older, p.committed)
	p.committed, p.sure, p.rolledBack = to, p.kept(to), false
	return nil
}

// mustHaveRead checks in the end that each message of the logs was delivered.
func (c *cluster) mustHaveRead() {
	for _, p := range c.parts {
		for _, r := range p.records {
			if !r.control && !c.terminal(r.message) {
				c.breaks(r.message, "nothing is passed over: %s, at %d, is not finished", r, r.offset)
			}
		}
	}
}
