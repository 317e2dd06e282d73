package sim

import (
	"fmt"
	"slices"

	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
)

// partition is a log of records that a group reads. A leader that lost some of them writes others in their place, in a later epoch.
type partition struct {
	offsets.TopicPartition
	number  int
	records []*record
	epochs  []offsetEpoch // where each leader epoch begins
	begin   int64         // of the log
	next    int64         // the end of the log
	written int           // records that were ever written

	committed  offsetEpoch
	older      []offsetEpoch // what was committed before
	sure       int64         // what no commit may be before
	rolledBack bool          // the broker has forgotten commits, and its owner does not know
	owner      *member       // nil: nobody
	generation int
	moving     bool // it is being revoked
}

// offsetEpoch is an offset, and the leader epoch of what is before it; -1: not known.
type offsetEpoch struct {
	offset int64
	epoch  int32
}

// record is a record of a log.
type record struct {
	delivery
	offset  int64
	epoch   int32
	lane    string
	control bool
	checked bool // it is finished, and was when a commit passed it
}

// newPartition writes a log: with gaps, control records and changes of the leader.
func newPartition(w *world, number int) *partition {
	at := offsets.TopicPartition{Topic: string(rune('a' + number%2)), Partition: int32(number / 2)}
	p := &partition{TopicPartition: at, number: number, epochs: []offsetEpoch{{}}, committed: offsetEpoch{0, -1}}
	for range w.cfg.Messages {
		if w.trouble(election) {
			p.epochs = append(p.epochs, offsetEpoch{p.next, p.leader() + 1})
		}
		p.write(w)
	}
	return p
}

// leader is the epoch of the leader.
func (p *partition) leader() int32 { return p.epochs[len(p.epochs)-1].epoch }

// write writes one message, and perhaps what is none before and behind it.
func (p *partition) write(w *world) {
	if w.trouble(gap) {
		p.next += 1 + w.rnd.Int64N(3)
	}
	r := p.append()
	r.first = true
	if k := w.cfg.Keys; k > 0 {
		r.lane = fmt.Sprintf("%d/%d", p.number, p.written%k)
		for _, o := range p.records[:len(p.records)-1] {
			if o.lane == r.lane {
				r.before, r.first = o.message, false
			}
		}
	}
	p.written++
	w.report.Messages++
	if w.trouble(control) {
		p.append().control = true
	}
}

func (p *partition) append() *record {
	r := &record{offset: p.next, epoch: p.leader()}
	r.message = message{p.number, int64(r.epoch)*10_000 + r.offset} // another one is written at its offset in another epoch
	r.key = ledger.Key{Scope: scopeOf(r.message), ID: fmt.Appendf(nil, "log-%d-%d", p.number, r.offset)}
	r.key = r.keyAfter(-1)
	p.records = append(p.records, r)
	p.next++
	return r
}

// keyAfter is the identity of a record that is delivered after another one.
func (r *record) keyAfter(prev int64) ledger.Key {
	k := r.key
	k.Pos = &ledger.Position{Log: fmt.Sprintf("log-%d", r.partition), Epoch: r.epoch, Offset: r.offset, Prev: prev}
	return k
}

// from are the records at an offset and behind it, which the log still has.
func (p *partition) from(offset int64) []*record {
	offset = max(offset, p.begin)
	at := slices.IndexFunc(p.records, func(r *record) bool { return r.offset >= offset })
	if at < 0 {
		return nil
	}
	return p.records[at:]
}

// truncate loses the records from an offset on, and writes others.
func (p *partition) truncate(w *world, at int64) {
	w.note(nil, "loses its records from", message{p.number, at}, int64(p.leader()))
	lost := p.from(at)
	for _, r := range lost {
		w.facts.of(r.message).gone = true
	}
	epoch := p.leader() + 1
	p.records = p.records[:len(p.records)-len(lost)]
	p.epochs = slices.DeleteFunc(p.epochs, func(e offsetEpoch) bool { return e.offset >= at })
	p.epochs = append(p.epochs, offsetEpoch{at, epoch})
	p.next, p.sure = at, min(p.sure, at)
	for range 1 + w.rnd.IntN(len(lost)+1) {
		p.write(w)
	}
}

// diverges says whether what a reader has read before a place is not what the log has there, and from where on.
func (p *partition) diverges(at offsetEpoch) (to int64, is bool) {
	if at.offset > p.next && at.epoch < 0 {
		return 0, true // out of range: it is read from its beginning
	}
	to = p.next
	for _, e := range p.epochs {
		if e.epoch > at.epoch {
			to = e.offset
			break
		}
	}
	return to, at.epoch >= 0 && to < at.offset
}

// kept is how much of what a reader has read is still what the log has.
func (p *partition) kept(at offsetEpoch) int64 {
	if to, lost := p.diverges(at); lost {
		return to
	}
	return at.offset
}

// epochBefore is the epoch of what is before an offset.
func (p *partition) epochBefore(offset int64) int32 {
	epoch := int32(-1)
	for _, e := range p.epochs {
		if e.offset < offset {
			epoch = e.epoch
		}
	}
	return epoch
}

// finished says whether its group has finished it, be it that nothing is left of the log.
func (p *partition) finished() bool {
	_, lost := p.diverges(p.committed)
	return p.begin >= p.next || p.committed.offset >= p.next && !lost
}
