package kafka

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// table holds the assignments of the moment. It does no I/O; all methods may be called concurrently.
type table struct {
	span int
	max  int // records in hand

	mu     sync.Mutex
	now    map[place]*assignment
	held   int // in hand, of assignments that were let go of too
	weight engine.Weight
	stuck  int // how many assignments are stuck, at least
}

func newTable(span, maxHeld int, maxBytes int64) *table {
	return &table{span: span, max: maxHeld, weight: engine.Weight{Limit: maxBytes}, now: map[place]*assignment{}}
}

// install begins an assignment. One that was there is let go of: it is returned, for its items to be dropped.
func (t *table) install(a *assignment) (old *assignment) {
	a.tracker, a.high, a.empty = offsets.New(a.start, a.epoch), -1, make(chan struct{})
	a.prev, a.read, a.weight.Limit = -1, a.start, t.weight.Limit
	a.name, a.keys = a.topic+"-"+strconv.Itoa(int(a.partition)), ledger.LogKeys{Scope: a.source.scope, Log: a.log}
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
		seq, ok := a.tracker.Add(r.Offset, r.LeaderEpoch)
		if !ok {
			if _, epoch := a.tracker.Last(); r.LeaderEpoch > epoch {
				rewound = records[i:]
				break
			}
			continue // delivered before: it is in hand or finished
		}
		if r.Attrs.IsControl() { // nothing to handle: terminal at once, so that the position reaches the end
			a.tracker.Finish(seq)
			continue
		}
		fresh = append(fresh, &delivery{of: a, seq: seq, record: r}) // each by itself: one that waits keeps no others in memory
	}
	t.hold(a, fresh)
	return fresh, t.reaches(a), rewound
}

// acceptAll is accept for records of a batch, all of them or none: false if one is not new.
func (t *table) acceptAll(a *assignment, b *batch) (full, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, _ := a.tracker.Last(); a.closing || b.records[0].Offset <= last {
		return false, false
	}
	for i, r := range b.records {
		seq, _ := a.tracker.Add(r.Offset, r.LeaderEpoch)
		if i == 0 {
			b.seq = seq
		}
	}
	t.holdMore(a, len(b.records))
	a.weight.AddAll(b.bytes)
	t.weight.AddAll(b.bytes)
	return t.reaches(a), true
}

// reaches says whether the span's limit is reached now.
func (t *table) reaches(a *assignment) bool {
	full := a.tracker.Span() >= t.span && a.pausedAt.IsZero()
	if full {
		a.pausedAt = time.Now()
	}
	return full
}

// hold counts what is in hand.
func (t *table) hold(a *assignment, fresh []*delivery) {
	t.holdMore(a, len(fresh))
	for _, d := range fresh {
		d.Size = heldSize(d.record)
		a.weight.Add(d.Size)
		t.weight.Add(d.Size)
	}
}

func (t *table) holdMore(a *assignment, n int) {
	if a.held == 0 {
		a.moved = time.Now()
	}
	a.held += n
	t.held += n
}

// letGo is the opposite of hold, but for the bytes.
func (t *table) letGo(a *assignment, n int, now time.Time) {
	a.held -= n
	t.held -= n
	a.moved = now
	if a.held == 0 && a.closing {
		close(a.empty)
	}
}

// stuckAfter is how long a partition that crowds may give nothing back before it is left out of polls.
const stuckAfter = time.Second

// crowded looks for partitions that have more in hand than there is room left for all of them (a shared buffer with
// dynamic thresholds), and so would fill the worker's hands while they wait for one record. It returns those that are
// stuck, which must leave the rest of the room to the others, and in how long to look again before the next poll; zero:
// poll. One partition alone crowds nobody.
func (t *table) crowded(now time.Time) (stuck []place, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.now) < 2 {
		return nil, 0
	}
	for p, a := range t.now {
		if a.closing || a.stuck || !t.scarce() || !t.crowds(a, 1) {
			continue
		}
		if left := stuckAfter - now.Sub(a.moved); left > 0 {
			wait = max(wait, left)
			continue
		}
		a.stuck = true
		t.stuck++
		stuck = append(stuck, p)
	}
	return stuck, wait
}

// scarce says whether there is little room left: as long as there is more, a partition may have as much in hand as it likes.
func (t *table) scarce() bool {
	return t.max-t.held <= t.max/4 || t.weight.Room() <= t.weight.Limit/4
}

// crowds says whether a partition has more in hand than that part of the room.
func (t *table) crowds(a *assignment, part int) bool {
	return a.held > (t.max-t.held)/part || a.weight.Counted() > t.weight.Room()/int64(part)
}

// unstuck returns the partitions that may be read again: they have less than half of what there is room for.
func (t *table) unstuck() (places []place) {
	if t.stuck == 0 {
		return nil
	}
	t.stuck = 0
	for p, a := range t.now {
		switch {
		case !a.stuck:
		case t.crowds(a, 2):
			t.stuck++
		default:
			a.stuck = false
			places = append(places, p)
		}
	}
	return places
}

// finish notes what the engine let go of. It returns the partitions that may perhaps be read again.
func (t *table) finish(done []engine.Finished) (relaxed []place) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range done {
		a := t.finishOne(&done[i], now)
		if !a.pausedAt.IsZero() && !a.closing && a.tracker.Span() <= t.span/2 {
			a.pausedAt = time.Time{}
			relaxed = append(relaxed, a.place)
		}
	}
	return append(relaxed, t.unstuck()...)
}

// finishOne notes that the engine has let go of a record, or of the first records of a batch.
func (t *table) finishOne(f *engine.Finished, now time.Time) *assignment {
	if f.Stretch == nil {
		d := f.Item.Ref.(*delivery)
		if f.Verdict.Ack && !d.of.gone {
			d.of.tracker.Finish(d.seq)
		}
		d.of.weight.Remove(d.Size)
		t.weight.Remove(d.Size)
		t.letGo(d.of, 1, now)
		return d.of
	}
	b, bytes := f.Stretch.Records.(*batch), int64(0)
	for i := range f.N {
		if f.Verdict.Ack && !b.of.gone {
			b.of.tracker.Finish(b.seq + uint64(i))
		}
		bytes += b.Size(i)
	}
	b.of.weight.AddAll(-bytes)
	t.weight.AddAll(-bytes)
	t.letGo(b.of, f.N, now)
	return b.of
}

// full says whether a partition is not to be read for now.
func (t *table) full(p place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.now[p]
	return a != nil && !a.closing && (a.stuck || !a.pausedAt.IsZero())
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

// due returns what the open assignments have finished and not committed, and what is unsure.
func (t *table) due() []point {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []point
	for _, a := range t.now {
		if !a.closing {
			out = a.appendDue(out, now)
		}
	}
	return out
}

// dueOf is due for assignments that were closed.
func (t *table) dueOf(list []*assignment) []point {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []point
	for _, a := range list {
		if !a.gone {
			out = a.appendDue(out, now)
		}
	}
	return out
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

// stalls lists the partitions that are not read for now.
func (t *table) stalls() []consumer.Stall {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []consumer.Stall
	for p, a := range t.now {
		reason, why, since := consumer.StallSpan, "span limit", a.pausedAt
		if since.IsZero() && a.stuck {
			reason, why, since = consumer.StallRoom, "leaves the room to other partitions", a.moved
			if t.weight.Room() <= 0 || t.held >= t.max {
				why = "what the worker holds takes all the room"
			}
		}
		if since.IsZero() {
			continue
		}
		oldest, _ := a.tracker.Oldest()
		out = append(out, consumer.Stall{
			What: fmt.Sprintf("%s-%d-%d", p.topic, p.partition, oldest), Reason: reason, Why: why, Since: since,
			Lane: fmt.Sprintf("%s-%d", p.topic, p.partition),
		})
	}
	slices.SortFunc(out, func(a, b consumer.Stall) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.What, b.What))
	})
	return out
}
