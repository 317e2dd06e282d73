package sqs

import (
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
)

// stage is where a message stands on its way out of the worker's hands.
type stage uint8

const (
	held      stage = iota // in the engine's
	deleting               // the ledger is terminal for it: to be deleted
	returning              // the engine let go of it: its visibility is to be ended or set
	gone
)

// hold is one message in the worker's hands, from its receive until its delete is answered or it is let go of. The
// table's lock guards what is below item.
type hold struct {
	id    string // MessageId
	group string // FIFO; empty on a standard queue
	raw   types.Message
	seq   uint64 // order of receives
	item  engine.Item
	msg   consumer.Message // the item's

	stage   stage
	handle  string    // the newest receipt handle
	until   time.Time // when its visibility ends at the earliest
	last    time.Time // when SQS extends no more
	lapsed  bool      // its visibility is over, as far as we know: nothing new begins with the handle
	dropped bool      // the engine was told to let go of it: it has lapsed, or a message of its group has
	busy    bool      // a call that names it is under way, or about to be
	queued  bool      // in the delete queue
	retryAt time.Time // not before
	tries   int       // failed deletes
	refused int       // of those, refused by themselves
	again   time.Duration
}

// table holds all messages in hand by MessageId. It does no I/O, and time comes in as a parameter.
//
// Of each message at most one call is under way (busy): so an extension has ended before the delete is sent, and no
// batch names a message twice.
type table struct {
	visibility time.Duration
	limit      time.Duration // of all extensions of one receive together
	margin     time.Duration // before the visibility's end, in which a handle counts as stale
	fifo       bool

	mu        sync.Mutex
	holds     map[string]*hold
	groups    map[string]int // held messages of each FIFO group
	inEngine  int
	seq       uint64
	deletes   []*hold
	pending   int  // in stage deleting
	draining  bool // what comes back is to be handed on
	pollsOver bool // none of our polls is open any more
	returns   int  // calls under way that hand messages back
	toDelete  chan struct{}
	toChange  chan struct{}
}

func newTable(visibility, limit time.Duration, fifo bool) *table {
	return &table{
		visibility: visibility, limit: limit, margin: min(visibility/10, 5*time.Second), fifo: fifo,
		holds: map[string]*hold{}, groups: map[string]int{},
		toDelete: make(chan struct{}, 1), toChange: make(chan struct{}, 1),
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// arrival says what a received message is to the worker.
type arrival uint8

const (
	arrivedNew   arrival = iota
	arrivedAgain         // in hand already: its handle is kept, nothing is offered
	arrivedDead          // its visibility may be over: nothing is done with it
)

// incoming is a message that a poll brought. Its hold is nil if it arrived dead.
type incoming struct {
	hold *hold
	is   arrival
}

// receive takes in what a poll brought, all of it in one step: a group that is let go of between two of its messages would
// go on with the second one. sent is when the poll was sent: the visibility began after that, so it is counted from there.
func (t *table) receive(raws []types.Message, sent, now time.Time) []incoming {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]incoming, len(raws))
	for i := range raws {
		out[i].hold, out[i].is = t.receiveOne(raws[i], sent, now)
	}
	return out
}

// receiveOne gives a message that is in hand the newer handle; it is not offered a second time.
func (t *table) receiveOne(raw types.Message, sent, now time.Time) (*hold, arrival) {
	until := sent.Add(t.visibility)
	if !now.Before(until.Add(-t.margin)) {
		return nil, arrivedDead
	}
	id := aws.ToString(raw.MessageId)
	h, again := t.holds[id], arrivedAgain
	if h != nil && h.dropped && h.stage == held {
		// The engine goes on with the old copy only to settle it, and then lets go of it: this one takes its place, or
		// later messages of its group would run before it.
		h.lapsed = true
		h = nil
	}
	if h == nil {
		t.seq++
		h, again = &hold{id: id, raw: raw, seq: t.seq}, arrivedNew
		if t.fifo {
			h.group = groupOf(&raw)
			t.groups[h.group]++
		}
		t.holds[id] = h
		t.inEngine++
	}
	h.handle, h.until, h.last, h.lapsed, h.retryAt = aws.ToString(raw.ReceiptHandle), until, sent.Add(t.limit), false, time.Time{}
	if h.stage == deleting {
		t.queueDelete(h)
	}
	return h, again
}

// fresh says whether the handle is good beyond doubt.
func (t *table) fresh(h *hold, now time.Time) bool {
	return !h.lapsed && now.Before(h.until.Add(-t.margin))
}

// start is asked right before a handler starts: never on a handle that may be dead. It returns what the engine is to let
// go of with such a message: the rest of its group. The message itself is let go of by the answer. So is one that was not
// offered yet when the engine was told to let go of it: those before it will not run.
func (t *table) start(h *hold, now time.Time) (ok bool, drops []*hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.dropped {
		return false, nil // and what came of its group since then stays
	}
	if t.fresh(h, now) {
		return true, nil
	}
	h.lapsed = true
	if t.fifo {
		drops = t.drop([]*hold{h})
	}
	return false, drops
}

// ack is told that the ledger is terminal for a message.
func (t *table) ack(h *hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds[h.id] != h { // a newer copy is in hand, with the handle that counts
		t.leaveEngine(h, gone)
		return
	}
	t.leaveEngine(h, deleting)
	t.pending++
	t.queueDelete(h)
}

// drop notes that the engine is to let go of what has lapsed, and, of a FIFO queue, of all that is in hand of its groups. It
// returns what that is. The table's lock is held since the message lapsed: a copy that came in between would revive it, and
// be let go of as if it had lapsed.
func (t *table) drop(lapsed []*hold) []*hold {
	if len(lapsed) == 0 {
		return nil
	}
	groups := map[string]bool{}
	for _, h := range lapsed {
		h.dropped, groups[h.group] = true, true
	}
	if !t.fifo {
		return lapsed
	}
	drops := slices.Clone(lapsed)
	for _, h := range t.holds {
		if h.stage == held && groups[h.group] && !h.dropped {
			h.dropped = true
			drops = append(drops, h)
		}
	}
	return drops
}

// late returns which messages the engine was told to let go of before it had them.
func (t *table) late(offered []*engine.Item) (drops []*hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, it := range offered {
		if h := it.Ref.(*hold); h.dropped {
			drops = append(drops, h)
		}
	}
	return drops
}

// letGo is told that the engine has let go of a message that is not to be deleted. Its visibility is set only with a
// handle that is good, never while a handler may still have it, and ended only when the worker stops: else it would come
// straight back to a poll of our own.
func (t *table) letGo(h *hold, v engine.Verdict, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.Held || !t.fresh(h, now) || v.Again <= 0 && !t.draining {
		t.leaveEngine(h, gone)
		return
	}
	h.again = v.Again
	t.leaveEngine(h, returning)
	poke(t.toChange)
}

// leaveEngine moves a message out of the engine's hands.
func (t *table) leaveEngine(h *hold, to stage) {
	h.stage = to
	t.inEngine--
	if t.fifo {
		if t.groups[h.group]--; t.groups[h.group] == 0 {
			delete(t.groups, h.group)
		}
	}
	if to == gone {
		t.remove(h)
	}
}

func (t *table) remove(h *hold) {
	if h.stage == deleting {
		t.pending--
	}
	h.stage = gone
	if t.holds[h.id] == h {
		delete(t.holds, h.id)
	}
}

// queueDelete puts a message in the delete queue, unless a call is under way that has to end first.
func (t *table) queueDelete(h *hold) {
	if h.stage != deleting || h.busy || h.queued {
		return
	}
	h.queued = true
	t.deletes = append(t.deletes, h)
	poke(t.toDelete)
}

// lanes counts what can run side by side at most: groups of a FIFO queue, messages of another one; and all in hand.
func (t *table) lanes() (lanes, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fifo {
		return len(t.groups), len(t.holds)
	}
	return t.inEngine, len(t.holds)
}

// deletion is one entry of a batch of deletes.
type deletion struct {
	h      *hold
	handle string
}

// takeDeletes takes the next batch out of the delete queue.
func (t *table) takeDeletes() []deletion {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.deletes), maxBatch)
	batch := make([]deletion, n)
	for i, h := range t.deletes[:n] {
		h.queued, h.busy = false, true
		batch[i] = deletion{h, h.handle}
	}
	t.deletes = slices.Delete(t.deletes, 0, n)
	if len(t.deletes) > 0 {
		poke(t.toDelete)
	}
	return batch
}

func (t *table) deletesReady() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.deletes)
}

// deleted is told that a delete has succeeded, or is given up: the message will then be delivered again, and the ledger
// knows it. A copy that came meanwhile is deleted too.
func (t *table) deleted(d deletion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d.h.busy = false
	if d.h.handle != d.handle {
		t.queueDelete(d.h)
		return
	}
	t.remove(d.h)
}

// deleteFailed notes a failed delete and returns how many there were; it is tried again after retryDelete.
func (t *table) deleteFailed(d deletion, refused bool) (tries, refusals int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d.h.busy = false
	d.h.tries++
	if refused {
		d.h.refused++
	}
	return d.h.tries, d.h.refused
}

func (t *table) retryDelete(h *hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queueDelete(h)
}

// waiting counts what is still to be deleted and what is still to be handed back.
func (t *table) waiting() (deletes, returns int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.holds {
		if h.stage == returning && (h.busy || t.mayReturn(h)) {
			returns++
		}
	}
	return t.pending, returns
}

// drain says that the worker stops: from now on messages are handed back.
func (t *table) drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining = true
}

// over says that no poll of ours is open any more.
func (t *table) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pollsOver = true
	poke(t.toChange)
}
