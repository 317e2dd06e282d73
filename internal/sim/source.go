package sim

import (
	"fmt"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// broker is where messages come from, and what is told of those that are finished.
type broker interface {
	// begin starts what happens at the broker by itself.
	begin()
	// join is a process that has joined the ledger.
	join(p *process) source
	// gone is told of a process that has ended or died.
	gone(p *process)
	// done says whether the broker has no message left.
	done() bool
	// left says in words what is left.
	left() string
}

// source is a process' side of its broker.
type source interface {
	// poll takes in what there is room for.
	poll()
	// more says whether a poll would bring something.
	more() bool
	// finished is a delivery that the flow lets go of.
	finished(d delivery, v flow.Verdict)
	// has is asked right before a handler begins; false: the broker has the message back.
	has(d delivery) bool
	// drained is the end of a drain: nothing is in hand any more. then is called when the broker knows.
	drained(then func())
}

// message names a message.
type message struct {
	partition int
	offset    int64
}

// String is a message for people.
func (m message) String() string { return fmt.Sprintf("%d-%d", m.partition, m.offset) }

// delivery is what an item is of.
type delivery struct {
	message
	key    ledger.Key
	before message // of its ordering key
	first  bool    // none is before it
	copied bool    // it stands in no order, and its broker is told nothing of it
	forged bool    // it has another body
	skip   bool    // it is another group's
	of     any     // the source's own

	redrive *redrive // nil: it comes from the source
}

// ranged says whether the process wants messages to be held in ranges.
func (p *process) ranged() bool {
	return p.cfg.Ranged && (!p.cfg.Mixed || mix(p.cfg.Seed, uint64(p.worker.number), uint64(p.life))%2 == 0)
}

// wantsRow says whether a message is to have a row of its own, whoever asks.
func (p *process) wantsRow(m message) bool {
	return p.cfg.Mixed && mix(p.cfg.Seed, uint64(m.partition), uint64(m.offset))%6 == 0
}

// item makes an item of a delivery: all items are made here.
func (p *process) item(d delivery, order string) *flow.Item {
	it := &flow.Item{Size: p.size(d.message), Of: d, OrderingKey: order}
	it.Key, it.Ranged, it.Fingerprint = d.key, p.ranged() && !p.wantsRow(d.message), ledger.BodyFingerprint([]byte(d.String()))
	if p.marked(unkeyed, d.message) {
		it.Invalid = errUnkeyed
	}
	return it
}

// of is an item's delivery. A caller's has another body if the ledger knows its request by that.
func of(it *flow.Item) delivery {
	d := it.Of.(delivery)
	if c, is := d.of.(*call); is {
		d.forged = c.differs()
	}
	return d
}
