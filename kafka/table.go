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

// table holds the assignments of the moment: the decisions of [offsets.Table] under a lock. It does no I/O; all methods may be
// called concurrently.
type table struct {
	mu   sync.Mutex
	core *offsets.Table
}

// install begins an assignment. One that was there is let go of: it is returned, for its items to be dropped.
func (t *table) install(a *assignment) (old *assignment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.installLocked(a)
}

// replace begins an assignment in the place of an open one. False: that was closed.
func (t *table) replace(old, now *assignment) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old.Closed() {
		return false
	}
	t.installLocked(now)
	return true
}

func (t *table) installLocked(a *assignment) (old *assignment) {
	a.begin()
	if old = assignmentOf(t.core.Install(&a.Assignment)); old != nil {
		old.tellEmpty()
	}
	return old
}

// get returns the assignment of a partition that takes records in, nil if there is none.
func (t *table) get(p place) *assignment {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.core.Get(p); a != nil && !a.Closed() {
		return assignmentOf(a)
	}
	return nil
}

// accept takes delivered records in. It returns those that are new, with their place in the tracker, and whether the
// span's limit is reached by them. It stops before a record that was rewound: rewound is the rest.
func (t *table) accept(a *assignment, records []*kgo.Record) (fresh []*delivery, full bool, rewound []*kgo.Record) {
	now := time.Now()
	fresh = make([]*delivery, 0, len(records))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range records {
		size := heldSize(r)
		seq, is := t.core.Take(now, &a.Assignment, arriving(r, size))
		if is == offsets.Rewound {
			rewound = records[i:]
			break
		}
		if is == offsets.Taken {
			d := &delivery{of: a, seq: seq, record: r} // by itself: one that waits keeps no others in memory
			d.Size = size
			fresh = append(fresh, d)
		}
	}
	return fresh, t.core.Pauses(now, &a.Assignment), rewound
}

func arriving(r *kgo.Record, size int64) offsets.Record {
	return offsets.Record{Offset: r.Offset, Epoch: r.LeaderEpoch, Size: size, Control: r.Attrs.IsControl()}
}

// acceptAll is accept for records of a batch, all of them or none: false if one is not new. Their offsets grow, so only the first
// may not be.
func (t *table) acceptAll(a *assignment, b *batch) (full, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range b.records {
		seq, is := t.core.Take(now, &a.Assignment, arriving(r, b.Size(i)))
		if is != offsets.Taken {
			return false, false
		}
		if i == 0 {
			b.seq = seq
		}
	}
	return t.core.Pauses(now, &a.Assignment), true
}

// pins is engine.Shown.Pins.
func (t *table) pins(it *engine.Item) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.core.Pinned(&it.Ref.(*delivery).of.Assignment)
}

// crowded looks for partitions that are stuck, see [offsets.Table.Crowded].
func (t *table) crowded(now time.Time) (stuck []place, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, wait := t.core.Crowded(now)
	return appendPlaces(nil, list), wait
}

func appendPlaces(out []place, list []*offsets.Assignment) []place {
	for _, a := range list {
		out = append(out, a.TopicPartition)
	}
	return out
}

// finish notes what the engine let go of. It returns the partitions that may perhaps be read again.
func (t *table) finish(done []engine.Finished) (relaxed []place) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range done {
		a := t.finishOne(&done[i], now)
		a.tellEmpty()
		if t.core.Resumes(&a.Assignment) {
			relaxed = append(relaxed, a.TopicPartition)
		}
	}
	return appendPlaces(relaxed, t.core.Unstuck())
}

// finishOne notes that the engine has let go of a record, or of the first records of a batch.
func (t *table) finishOne(f *engine.Finished, now time.Time) *assignment {
	if f.Stretch == nil {
		d := f.Item.Ref.(*delivery)
		t.core.Finish(now, &d.of.Assignment, d.seq, d.Size, f.Verdict.Ack)
		return d.of
	}
	b := f.Stretch.Records.(*batch)
	for i := range f.N {
		t.core.Finish(now, &b.of.Assignment, b.seq+uint64(i), b.Size(i), f.Verdict.Ack)
	}
	return b.of
}

// full says whether a partition is not to be read for now.
func (t *table) full(p place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.core.Full(p)
}

// oldest returns the offset that holds an assignment.
func (t *table) oldest(a *assignment) (offset int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return a.Oldest()
}

// needs says whether a record before an offset is not finished.
func (t *table) needs(a *assignment, before int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return a.Needs(before)
}

// close stops the assignments that match from taking anything in, and keeps the committer away from them.
func (t *table) close(match func(*assignment) bool) []*assignment {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*assignment
	for _, c := range t.core.Close(func(a *offsets.Assignment) bool { return match(assignmentOf(a)) }) {
		a := assignmentOf(c)
		a.tellEmpty()
		out = append(out, a)
	}
	return out
}

// discard lets go of closed assignments.
func (t *table) discard(list []*assignment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range list {
		t.core.Discard(&a.Assignment)
	}
}

// due returns what the open assignments have finished and not committed, and what is unsure.
func (t *table) due() (out []point) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.core.Due(now) {
		out = append(out, pointOf(c))
	}
	return out
}

// dueOf is due for assignments that were closed.
func (t *table) dueOf(list []*assignment) (out []point) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range list {
		if c, due := a.Due(now); due {
			out = append(out, pointOf(c))
		}
	}
	return out
}

// confirm notes that the broker has an offset.
func (t *table) confirm(p point) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.of != nil {
		p.of.Confirm(p.offset)
	}
}

// saw notes a partition's high watermark.
func (t *table) saw(p place, high int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.core.Get(p); a != nil {
		a.Saw(high)
	}
}

// lags calls f for each assignment with how many offsets lie between what is finished and the end of the log.
func (t *table) lags(f func(p place, lag int64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.core.All() {
		if lag, known := a.Lag(); known {
			f(a.TopicPartition, lag)
		}
	}
}

// mostLags is of how many partitions a report tells.
const mostLags = 20

// most are the partitions that are furthest behind, the largest lag first.
func (t *table) most() (all []ledger.Lag) {
	t.lags(func(p place, n int64) {
		all = append(all, ledger.Lag{Source: p.Topic + "-" + strconv.Itoa(int(p.Partition)), Waiting: n})
	})
	slices.SortFunc(all, func(a, b ledger.Lag) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Source, b.Source))
	})
	return all[:min(len(all), mostLags)]
}

// reasons says to people why a partition is not read.
var reasons = map[offsets.Reason]struct {
	is   string
	text string
}{
	offsets.AtSpan:  {consumer.StallSpan, "span limit"},
	offsets.Crowds:  {consumer.StallRoom, "leaves the room to other partitions"},
	offsets.AllFull: {consumer.StallRoom, "what the worker holds takes all the room"},
}

// stalls lists the partitions that are not read for now.
func (t *table) stalls() []consumer.Stall {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []consumer.Stall
	for _, a := range t.core.All() {
		why, since := t.core.Why(a)
		if why == offsets.Read {
			continue
		}
		oldest, _ := a.Oldest()
		lane := fmt.Sprintf("%s-%d", a.Topic, a.Partition)
		out = append(out, consumer.Stall{
			What: fmt.Sprintf("%s-%d", lane, oldest), Lane: lane, Reason: reasons[why].is, Why: reasons[why].text, Since: since,
		})
	}
	slices.SortFunc(out, func(a, b consumer.Stall) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.What, b.What))
	})
	return out
}
