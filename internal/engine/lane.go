package engine

import (
	"container/heap"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// phase is where an item stands. Each item is in exactly one.
type phase uint8

const (
	queued   phase = iota // in hand, not ours: to be claimed
	claiming              // a claim is on its way, or its answer is not known
	claimed               // ours, not started
	running               // taken by a goroutine of the pool
	settling              // a settlement is on its way
	waiting               // not ours: busy elsewhere or in backoff, until due; or behind another copy of its key
	suspect               // not ours: to be claimed alone
	finished              // let go of
)

// task is the engine's part of an item. The scheduler's lock guards it.
type task struct {
	phase      phase
	holds      bool // hands has this item for its key
	solo       bool
	placed     bool     // it has the process' place for suspects
	single     bool     // it was part of a batch that came to nothing: it runs alone
	overdue    bool     // its broker deadline had passed when it came
	dropped    bool     // the broker has it back, or will: nothing new begins with it
	told       bool     // the sink knows
	ran        bool     // a handler of this process had the message
	met        bool     // claimed before, in an answer that came
	ranged     bool     // ledger.Claim.Ranged
	fresh      bool     // its claim in a range was its first, which is not counted yet
	behind     bool     // a live owner had it when the ledger last said why it is busy
	maybe      bool     // not known whether it is ours: it is not forgotten before the ledger has said so, or sess has ended
	lane       *lane    // nil: no order
	prev, next *Item    // in the lane
	line       *logLine // of the log in whose order it is; nil: of none
	sum        [ledger.KeySize]byte
	handNext   *Item // in hands
	due        time.Time
	heapAt     int   // index in the heap, +1; 0: not in it
	broken     int   // runs in a row whose transaction broke off with the database
	asks       int   // Busy answers in a row without a known wait
	allPrev    *Item // in the list of all items
	allNext    *Item
	rare       *rare

	// Valid while the item is ours, or may be.
	sess       *session
	ticket     ledger.Ticket
	attempt    int
	crashes    int
	generation int
	run        *run
}

// lane is a sequence of items that run one at a time, in order: a FIFO group, a partition, a key of a partition. Its
// head runs or waits; behind a waiting head nothing stays claimed.
type lane struct {
	name       string
	head, tail *Item
	scan       *Item // no item before it is queued
	gated      bool  // the head waits: only the head may be claimed
	listed     bool  // in the claim queue
	urgent     bool  // among what is due there
}

// slot is an entry of the claim queue: a lane with something to claim, or an item without a lane.
type slot struct {
	item *Item
	lane *lane
}

// sched is the pure part of the engine: what may be claimed, what may run, what waits until when. It has no lock, no
// clock and no I/O; the engine calls it under its lock and passes the time in.
type sched struct {
	lanes    map[string]*lane
	claimQ   backlog
	readyQ   fifo[*Item]
	suspectQ fifo[*Item]
	doubtQ   fifo[*Item] // also in claimQ, or dropped: what may be ours is asked for before anything else
	waits    waitHeap
	hands    hands
	lines    map[string]*logLine

	stretchQ     fifo[*Stretch] // to be claimed
	stretchReady fifo[*Stretch] // to be run

	toSettle []*Item // what waited to head its lane to be settled; the engine empties it

	// toRelease collects what is ours but must not stay so, behind a head that waits; the engine empties it.
	toRelease []*Item

	held      int
	bytes     Weight // of what is held
	ahead     int    // claiming or claimed
	taken     int    // handlers of the pool that run or are spoken for: heads from claiming to running
	waitCount int
	working   int  // items that run or are being settled, also those that the broker has back
	eased     bool // something that wanted a slot waits now: the load is less
}

func newSched() *sched {
	return &sched{lanes: map[string]*lane{}, hands: newHands(), lines: map[string]*logLine{}}
}

// setPhase keeps the counters.
func (s *sched) setPhase(it *Item, p phase) {
	s.count(it, -1)
	if r := it.rare; r != nil && r.answered != nil && it.phase == settling && p != settling {
		close(r.answered)
		r.answered = nil
	}
	it.phase = p
	s.count(it, +1)
}

func (s *sched) count(it *Item, n int) {
	switch it.phase {
	case claiming, claimed:
		s.ahead += n
	case waiting, suspect:
		s.waitCount += n
		s.eased = s.eased || n > 0
		s.stall(it, n)
	}
	if it.takesSlot() && it.isHead() {
		s.taken += n
	}
	if it.works() {
		s.working += n
	}
}

// works says whether the item's handler runs, or the ledger is still to hear how it ended.
func (it *Item) works() bool { return it.phase == running || it.phase == settling }

// takesSlot says whether the item has or will have a handler of the pool, once it heads its lane.
func (it *Item) takesSlot() bool {
	return !it.solo && it.phase >= claiming && it.phase <= running
}

// add takes an item in.
func (s *sched) add(it *Item) {
	it.Key = it.Key.Known()
	s.enter(it)
	s.list(it, false)
}

// enter is add without a place in the claim queue.
func (s *sched) enter(it *Item) {
	s.held++
	if it.Size == 0 {
		it.Size = int64(len(it.Msg.Body)) // kept, since a handler may change its message
	}
	s.bytes.Add(it.Size)
	it.sum = it.Key.Sum()
	s.joinLines(it)
	if it.Lane != "" {
		l := s.lanes[it.Lane]
		if l == nil {
			l = &lane{name: it.Lane}
			s.lanes[it.Lane] = l
		}
		l.push(it)
	}
}

// list makes a queued item claimable as far as its lane allows. What was in hand before and is due again goes ahead of
// what is new: behind a long backlog a short backoff would last as long as the backlog, and hold up its lane or its
// partition's committed offset meanwhile.
func (s *sched) list(it *Item, due bool) {
	if it.maybe && (it.dropped || !it.solo) {
		s.doubtQ.push(it)
	}
	if it.maybe && it.dropped {
		return
	}
	if it.solo {
		s.setPhase(it, suspect)
		if it.isHead() {
			s.suspectQ.push(it)
			s.gate(it.lane)
		}
		return
	}
	l := it.lane
	if l == nil {
		s.claimQ.push(slot{item: it}, due)
		return
	}
	if !l.gated || l.head == it {
		s.listLane(l, due)
	}
}

// takeClaims moves up to n queued items to claiming and appends them to out, which is empty, lanes in turn so that no deep lane keeps the others waiting, and
// each key once. headsOnly takes only what could start at once.
func (s *sched) takeClaims(n int, headsOnly bool, out []*Item) []*Item {
	share := max(n/max(s.claimQ.len(), 1), 1)
	for len(out) < n && s.claimQ.len() > 0 {
		e := s.claimQ.pop()
		if e.lane == nil {
			out = s.takeOne(e.item, out)
			continue
		}
		e.lane.listed, e.lane.urgent = false, false
		out = s.takeFromLane(e.lane, min(share, n-len(out)), headsOnly, out)
	}
	return out
}

func (s *sched) takeFromLane(l *lane, n int, headsOnly bool, out []*Item) []*Item {
	if l.head == nil { // all its items were let go of since it was listed
		return out
	}
	if headsOnly {
		return s.takeOne(l.head, out)
	}
	limit := len(out) + n
	for l.scan != nil && !l.gated && len(out) < limit {
		it := l.scan
		l.scan = it.next
		out = s.takeOne(it, out)
	}
	if l.gated {
		return s.takeOne(l.head, out)
	}
	if l.scan != nil {
		s.listLane(l, false)
	}
	return out
}

// takeDoubts moves up to n items that may be ours to claiming and appends them to out, which is empty, whatever their lanes say: until that is known, others find
// them busy.
func (s *sched) takeDoubts(n int, out []*Item) []*Item {
	for len(out) < n && s.doubtQ.len() > 0 {
		if it := s.doubtQ.pop(); it.maybe {
			out = s.takeOne(it, out)
		}
	}
	return out
}

// takeOne claims one item, unless it is not to be claimed or another copy of its key is in hand.
func (s *sched) takeOne(it *Item, out []*Item) []*Item {
	if it.phase != queued {
		return out
	}
	if !s.grab(it) {
		return out
	}
	s.setPhase(it, claiming)
	return append(out, it)
}

// requeue makes an item that is not ours claimable again.
func (s *sched) requeue(it *Item) {
	s.letGo(it)
	s.setPhase(it, queued)
	s.rescan(it.lane)
	s.list(it, true)
}

func (s *sched) rescan(l *lane) {
	if l != nil {
		l.scan = l.head
	}
}

// won notes that the item is ours. It may run if it heads its lane; behind a head that waits it is to be released.
func (s *sched) won(it *Item) {
	s.setPhase(it, claimed)
	if !it.isHead() && it.lane.gated {
		s.toRelease = append(s.toRelease, it)
		return
	}
	if l := it.lane; l != nil && l.head == it {
		s.ungate(l)
	}
	if it.isHead() {
		s.readyQ.push(it)
	}
}

func (s *sched) ungate(l *lane) {
	if !l.gated {
		return
	}
	l.gated = false
	s.listLane(l, false)
}

// listLane offers what the lane holds to be claimed.
func (s *sched) listLane(l *lane, due bool) {
	if !l.listed || due && !l.urgent {
		l.listed, l.urgent = true, due
		s.claimQ.push(slot{lane: l}, due)
	}
}

// hold makes an item that is not ours wait until due.
func (s *sched) hold(it *Item, due time.Time) {
	s.letGo(it)
	s.setPhase(it, waiting)
	it.due = due
	heap.Push(&s.waits, it)
	if it.isHead() {
		s.gate(it.lane)
	}
}

// gate closes the lane behind a head that waits; what is claimed behind it is to be released at once: else two workers
// could each hold what the other's head waits for.
func (s *sched) gate(l *lane) {
	if l == nil || l.gated || !l.head.isWaiting() {
		return
	}
	l.gated = true
	for it := l.head.next; it != nil; it = it.next {
		if it.phase == claimed {
			s.toRelease = append(s.toRelease, it)
		}
	}
}

// wake makes what is due claimable and returns the next due time; zero if nothing waits.
func (s *sched) wake(now time.Time) time.Time {
	for len(s.waits) > 0 {
		it := s.waits[0]
		if it.due.After(now) {
			return it.due
		}
		heap.Pop(&s.waits)
		s.setPhase(it, queued)
		s.rescan(it.lane)
		s.list(it, true)
	}
	return time.Time{}
}

// remove lets go of an item for good.
func (s *sched) remove(it *Item) {
	s.letGo(it)
	if it.heapAt > 0 {
		heap.Remove(&s.waits, it.heapAt-1)
	}
	s.setPhase(it, finished)
	s.held--
	s.bytes.Remove(it.Size)
	s.leaveLines(it)
	s.prune()
	l := it.lane
	if l == nil {
		return
	}
	wasHead := l.head == it
	l.unlink(it)
	if l.head == nil {
		delete(s.lanes, l.name)
	} else if wasHead {
		s.newHead(l)
	}
}

// newHead lets a lane go on with its new head.
func (s *sched) newHead(l *lane) {
	if l.head.takesSlot() {
		s.taken++
	}
	switch l.head.phase {
	case claimed:
		s.readyQ.push(l.head)
	case suspect:
		s.suspectQ.push(l.head)
	case running:
		if l.head.rest().early != nil {
			s.toSettle = append(s.toSettle, l.head)
		}
	}
	if l.head.isWaiting() {
		l.gated = false
		s.gate(l)
		return
	}
	l.gated = false
	s.listLane(l, false)
}

func (it *Item) isHead() bool    { return it.lane == nil || it.lane.head == it }
func (it *Item) isWaiting() bool { return it.phase == waiting || it.phase == suspect }
