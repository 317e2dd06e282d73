package kafka

import (
	"strconv"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/locks"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lockTable is the table of a share group's records behind a lock, with a clock. It does no I/O; all methods may be called
// concurrently.
type lockTable struct {
	now func() time.Duration // its time, which goes on evenly whatever is done to the computer's clock

	mu       sync.Mutex
	pure     *locks.Table
	terms    terms
	names    map[place]string
	buffered map[*kgo.Record]*locks.Hold
}

func newLockTable() *lockTable {
	began := time.Now()
	return &lockTable{
		now: func() time.Duration { return time.Since(began) }, pure: locks.New(0), names: map[place]string{}, buffered: map[*kgo.Record]*locks.Hold{},
	}
}

// use gives the table to one caller at a time.
func (t *lockTable) use(do func(*locks.Table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(t.pure)
}

func (t *lockTable) setTerms(s terms) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.terms = s
	t.pure.SetLimit(s.limit)
}

// pace is the time between two looks at what is to be renewed.
func (t *lockTable) pace() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(max(t.terms.lock/24, 20*time.Millisecond), 5*time.Second)
}

// patience is how long the answer to a renewal may take. One is due when a third of the lock has passed: after one that is not
// answered there is time for another, and for a third.
func (t *lockTable) patience() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(max(t.terms.lock/6, 2*shareFetchWait), callTimeout)
}

func (t *lockTable) limit() int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.terms.limit
}

// full says that what is in hand is as much as half of the locks of all partitions that this worker has met. Others may have the other
// half, and partitions are not alike.
func (t *lockTable) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.pure.Held()
	return held > 0 && held >= len(t.names)*t.terms.most/2
}

func (t *lockTable) reserved(h *locks.Hold) (is bool) {
	t.use(func(p *locks.Table) { is = p.Reserved(h) })
	return is
}

// nameOf names a partition.
func (t *lockTable) nameOf(p place) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.name(p)
}

// name is nameOf, with the lock held.
func (t *lockTable) name(p place) string {
	name, ok := t.names[p]
	if !ok {
		name = p.Topic + "-" + strconv.Itoa(int(p.Partition))
		t.names[p] = name
	}
	return name
}

// buffer takes in a record that the client has fetched, and hides it from the client's poll.
func (t *lockTable) buffer(r *kgo.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hold(r)
	t.buffered[r] = h
	t.pure.Buffer(h)
	hide(r)
}

// hold is a record as it comes. The client tells when its lock ends in the time of the computer's clock.
func (t *lockTable) hold(r *kgo.Record) *locks.Hold {
	name := t.name(place{Topic: r.Topic, Partition: r.Partition})
	return &locks.Hold{
		ID: string(new(arena).recordID(name, r.Offset)), Place: name, Handle: r, Count: r.DeliveryCount(),
		Until: t.now() + time.Until(r.AcquisitionDeadline()), Span: t.terms.lock,
	}
}

// receive takes in what a poll has brought, and returns what of it is new, and how many came too late.
func (t *lockTable) receive(records []*kgo.Record) (fresh []*delivery, late int) {
	fresh = make([]*delivery, 0, len(records))
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, r := range records {
		h := t.buffered[r]
		delete(t.buffered, r)
		if reveal(r); h == nil {
			h = t.hold(r)
		}
		switch t.pure.Receive(h, now) {
		case locks.ArrivedNew:
			fresh = append(fresh, &delivery{record: r, lock: h})
		case locks.ArrivedLate:
			late++
		}
	}
	return fresh, late
}

// late returns which records the engine was told to let go of before it had them.
func (t *lockTable) late(offered []*engine.Item) (drops []*locks.Hold) {
	t.use(func(p *locks.Table) {
		for _, it := range offered {
			if h := it.Ref.(*delivery).lock; p.Dropped(h) {
				drops = append(drops, h)
			}
		}
	})
	return drops
}

func (t *lockTable) start(h *locks.Hold) (ok bool) {
	t.use(func(p *locks.Table) { ok = p.Start(h, t.now()) })
	return ok
}

// finish takes note of what the engine has let go of, and returns what is to be accepted.
func (t *lockTable) finish(done []engine.Finished) (accepts []*kgo.Record) {
	t.use(func(p *locks.Table) {
		for _, f := range done {
			h := f.Item.Ref.(*delivery).lock
			switch {
			case !f.Verdict.Ack:
				p.LetGo(h)
			case p.Ack(h):
				accepts = append(accepts, h.Handle.(*kgo.Record))
			}
		}
	})
	return accepts
}

func (t *lockTable) plan(live bool) (batches [][]*locks.Hold, drops []*locks.Hold) {
	t.use(func(p *locks.Table) { batches, drops = p.Plan(t.now(), live) })
	return batches, drops
}

func (t *lockTable) planBuffered() (batches [][]*locks.Hold) {
	t.use(func(p *locks.Table) { batches = p.PlanBuffered(t.now()) })
	return batches
}

// handles are by which records are acknowledged.
func (t *lockTable) handles(batch []*locks.Hold) []*kgo.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return recordsOf(batch)
}

func recordsOf(holds []*locks.Hold) []*kgo.Record {
	out := make([]*kgo.Record, len(holds))
	for i, h := range holds {
		out[i] = h.Handle.(*kgo.Record)
	}
	return out
}

func (t *lockTable) renewed(batch []*locks.Hold, outcomes map[string]locks.Outcome, sent time.Duration) (accepts []*kgo.Record, drops []*locks.Hold) {
	t.use(func(p *locks.Table) {
		var decided []*locks.Hold
		decided, drops = p.Renewed(batch, outcomes, sent, t.now())
		accepts = recordsOf(decided)
	})
	return accepts, drops
}

func (t *lockTable) releases() (records []*kgo.Record) {
	t.use(func(p *locks.Table) { records = recordsOf(p.Releases()) })
	return records
}

func (t *lockTable) deciding() (n int) {
	t.use(func(p *locks.Table) { n = p.Deciding() })
	return n
}

func (t *lockTable) returning() (n int) {
	t.use(func(p *locks.Table) { n = p.Returning() })
	return n
}

// lost names the records at their last delivery that nobody has decided.
func (t *lockTable) lost() (ids []string) {
	t.use(func(p *locks.Table) {
		for _, h := range p.Lost() {
			ids = append(ids, h.ID)
		}
	})
	return ids
}

// hider hides records while the client gives them out.
type hider struct{ locks *lockTable }

// OnFetchRecordBuffered implements kgo.HookFetchRecordBuffered.
func (h hider) OnFetchRecordBuffered(r *kgo.Record) { h.locks.buffer(r) }
