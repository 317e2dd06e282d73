package kafka

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/kafka/internal/offsets"
	"github.com/twmb/franz-go/pkg/kgo"
)

// place names a partition.
type place struct {
	topic     string
	partition int32
}

// assignment is one term in which this member owns a partition. A partition that goes and comes back is another
// assignment: what finishes late belongs to the old one and moves nothing. The table's lock guards what follows epoch.
type assignment struct {
	place
	id     topicID
	log    string // ledger.Position.Log
	source topicSource
	start  int64
	epoch  int32

	tracker   *offsets.Tracker
	committed int64         // what the broker confirmed; -1: nothing yet
	closing   bool          // revoked, lost or replaced: nothing more is taken in, and the committer leaves it alone
	gone      bool          // let go of: what finishes now moves nothing
	held      int           // records that the engine has in hand
	empty     chan struct{} // closed when it closes and the engine has none in hand
	high      int64         // high watermark; -1: not known
	pausedAt  time.Time     // since when the span limit holds it; zero: it does not
}

// table holds the assignments of the moment. It does no I/O; all methods may be called concurrently.
type table struct {
	span int

	mu  sync.Mutex
	now map[place]*assignment
}

func newTable(span int) *table { return &table{span: span, now: map[place]*assignment{}} }

// install begins an assignment. One that was there is let go of: it is returned, for its items to be dropped.
func (t *table) install(a *assignment) (old *assignment) {
	a.tracker, a.high, a.empty = offsets.New(a.start, a.epoch), -1, make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	if old = t.now[a.place]; old != nil {
		old.close()
		old.gone = true
	}
	t.now[a.place] = a
	return old
}

// get returns the assignment of a partition that takes records in, nil if there is none.
func (t *table) get(p place) *assignment {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.now[p]; a != nil && !a.closing {
		return a
	}
	return nil
}

// accept takes delivered records in. It returns those that are new, with their place in the tracker, and whether the
// span's limit is reached by them. It stops before a record whose offset does not grow although its epoch does, because
// the log was truncated and written anew: rewound is the rest.
func (t *table) accept(a *assignment, records []*kgo.Record) (fresh []*delivery, full bool, rewound []*kgo.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.closing {
		return nil, false, nil
	}
	fresh = make([]*delivery, 0, len(records))
	for i, r := range records {
		prev, epoch := a.tracker.Last()
		seq, ok := a.tracker.Add(r.Offset, r.LeaderEpoch)
		if !ok {
			if r.LeaderEpoch > epoch {
				rewound = records[i:]
				break
			}
			continue // delivered before: it is in hand or finished
		}
		if r.Attrs.IsControl() { // nothing to handle: terminal at once, so that the position reaches the end
			a.tracker.Finish(seq)
			continue
		}
		if seq == 0 {
			prev = -1
		}
		fresh = append(fresh, &delivery{of: a, seq: seq, record: r, prev: prev})
	}
	a.held += len(fresh)
	full = a.tracker.Span() >= t.span && a.pausedAt.IsZero()
	if full {
		a.pausedAt = time.Now()
	}
	return fresh, full, rewound
}

// finish notes what the engine let go of. It returns the partitions that the span's limit does not hold any more.
func (t *table) finish(done []engine.Finished) (relaxed []place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range done {
		d := done[i].Item.Ref.(*delivery)
		a := d.of
		if done[i].Verdict.Ack && !a.gone {
			a.tracker.Finish(d.seq)
		}
		if a.held--; a.held == 0 && a.closing {
			close(a.empty)
		}
		if !a.pausedAt.IsZero() && !a.closing && a.tracker.Span() <= t.span/2 {
			a.pausedAt = time.Time{}
			relaxed = append(relaxed, a.place)
		}
	}
	return relaxed
}

// full says whether the span's limit holds a partition.
func (t *table) full(p place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.now[p]
	return a != nil && !a.closing && !a.pausedAt.IsZero()
}

func (a *assignment) close() {
	if a.closing {
		return
	}
	if a.closing = true; a.held == 0 {
		close(a.empty)
	}
}

// close stops the assignments that match from taking anything in, and keeps the committer away from them.
func (t *table) close(match func(*assignment) bool) []*assignment {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*assignment
	for _, a := range t.now {
		if !a.closing && match(a) {
			a.close()
			out = append(out, a)
		}
	}
	return out
}

// discard lets go of closed assignments.
func (t *table) discard(list []*assignment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range list {
		a.gone = true
		if t.now[a.place] == a {
			delete(t.now, a.place)
		}
	}
}

// point is an offset to commit.
type point struct {
	place
	id     topicID
	offset int64
	epoch  int32
	of     *assignment // nil: nobody's, see begin
}

// due returns what the open assignments have finished and not committed.
func (t *table) due() []point {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []point
	for _, a := range t.now {
		if !a.closing {
			out = a.appendDue(out)
		}
	}
	return out
}

// dueOf is due for assignments that were closed.
func (t *table) dueOf(list []*assignment) []point {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []point
	for _, a := range list {
		if !a.gone {
			out = a.appendDue(out)
		}
	}
	return out
}

func (a *assignment) appendDue(out []point) []point {
	offset, epoch := a.tracker.Position()
	if offset <= a.committed {
		return out
	}
	return append(out, point{place: a.place, id: a.id, offset: offset, epoch: epoch, of: a})
}

// confirm notes that the broker has an offset.
func (t *table) confirm(p point) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.of != nil {
		p.of.committed = max(p.of.committed, p.offset)
	}
}

// saw notes a partition's high watermark.
func (t *table) saw(p place, high int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.now[p]; a != nil {
		a.high = max(a.high, high)
	}
}

// lags calls f for each assignment with how many offsets lie between what is finished and the end of the log.
func (t *table) lags(f func(p place, lag int64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, a := range t.now {
		if a.high >= 0 {
			at, _ := a.tracker.Position()
			f(p, max(a.high-at, 0))
		}
	}
}

// stalls lists the partitions that the span's limit holds.
func (t *table) stalls() []consumer.Stall {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []consumer.Stall
	for p, a := range t.now {
		if a.pausedAt.IsZero() {
			continue
		}
		oldest, _ := a.tracker.Oldest()
		out = append(out, consumer.Stall{
			What: fmt.Sprintf("%s-%d-%d", p.topic, p.partition, oldest), Why: "span limit", Since: a.pausedAt,
			Lane: fmt.Sprintf("%s-%d", p.topic, p.partition),
		})
	}
	slices.SortFunc(out, func(a, b consumer.Stall) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.What, b.What))
	})
	return out
}
