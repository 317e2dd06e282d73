package flow

import (
	"container/heap"
	"time"
)

// sched keeps the phase of every item: what may be claimed, what may run, what waits until when. What holds between two events:
//
//   - An item heads its sequence until it leaves, and only heads run.
//   - What is claimed behind a head may hold its claim for as long as the head takes; behind a head that waits nothing stays claimed.
//   - A sequence with something to claim is listed, unless it is gated; what becomes its head is listed, or waits.
//   - sequence.scan passes only what need not be claimed any more: who makes an item queued again calls rescan.
//   - An item waits until its time, which is in the heap, or behind another copy of its key or for a rule, which is not: its due is 0.
//   - One item of a key at most is, or may be, ours: it holds the key, and has a place of each rule.
//   - With rules only heads are claimed, so no place is kept by what waits for its head. What waits for a rule does not hold its key.
//     What a rule then lets in has its place before it is claimed.
type sched struct {
	sequences map[string]*sequence
	claimQ    backlog
	readyQ    queue[*Item]
	suspectQ  queue[*Item]
	doubtQ    queue[*Item]   // also in claimQ, or dropped: what may be ours is asked for before anything else
	waits     minHeap[*Item] // by due time
	inflight  inflight
	rules     rules
	logs      logs

	rangeQ     queue[*Range] // to be claimed
	rangeReady queue[*Range] // to be run

	toSettle  []*Item // what waited to head its sequence to be settled
	declined  []*Item // what would wait behind another, and does not want to
	toRelease []*Item // what is ours but must not stay so, behind a head that waits
	concluded []*Item // what was awaited, and is answered

	held      int
	bytes     Weight // of what is held
	ahead     int    // claiming or claimed
	ranged    int    // of these, records of ranges
	taken     int    // handlers of the pool that run or are spoken for: heads from claiming to running
	waitCount int
	working   int  // items that run or are being settled, also those that the broker has back
	eased     bool // something that wanted a slot waits now: the load is less
}

func newSched(seed uint64, rules ...Rule) *sched {
	return &sched{sequences: map[string]*sequence{}, inflight: newInflight(seed), rules: rules, logs: logs{}}
}

// setPhase keeps the counters.
func (s *sched) setPhase(it *Item, p phase) {
	s.count(it, -1)
	if it.phase == settling && p != settling {
		s.answer(it)
	}
	it.phase = p
	s.count(it, +1)
}

// answer tells whoever waits for the answer to an item's settlement.
func (s *sched) answer(it *Item) {
	if r := it.extra; r != nil && r.awaited {
		r.awaited = false
		s.concluded = append(s.concluded, it)
	}
}

func (s *sched) count(it *Item, n int) {
	switch it.phase {
	case claiming, claimed:
		s.ahead += n
	case waiting, suspect:
		s.waitCount += n
		s.eased = s.eased || n > 0
		s.logs.stall(it, n)
	}
	if it.takesSlot() && it.isHead() {
		s.taken += n
	}
	if it.works() {
		s.working += n
	}
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
	s.bytes.Add(it.Size)
	it.sum = it.Key.Sum()
	s.logs.join(it)
	if it.OrderingKey != "" {
		l := s.sequences[it.OrderingKey]
		if l == nil {
			l = &sequence{name: it.OrderingKey}
			s.sequences[it.OrderingKey] = l
		}
		l.push(it)
	}
}

// list makes a queued item claimable as far as its sequence allows. What was in hand before and is due again goes ahead of
// what is new: behind a long backlog a short backoff would last as long as the backlog, and hold up its sequence or its
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
			s.gate(it.sequence)
		}
		return
	}
	l := it.sequence
	if l == nil {
		s.claimQ.push(slot{item: it}, due)
		return
	}
	if !l.gated || l.head == it {
		s.listSequence(l, due)
	}
}

// takeClaims moves up to n queued items to claiming and appends them to out, which is empty, sequences in turn so that no deep sequence keeps the others waiting, and
// each key once. headsOnly takes only what could start at once.
func (s *sched) takeClaims(n int, headsOnly bool, out []*Item) []*Item {
	share := max(n/max(s.claimQ.len(), 1), 1)
	for len(out) < n && s.claimQ.len() > 0 {
		e := s.claimQ.pop()
		if e.sequence == nil {
			out = s.takeOne(e.item, out)
			continue
		}
		e.sequence.listed, e.sequence.urgent = false, false
		out = s.takeFromSequence(e.sequence, min(share, n-len(out)), headsOnly, out)
	}
	return out
}

func (s *sched) takeFromSequence(l *sequence, n int, headsOnly bool, out []*Item) []*Item {
	if l.head == nil { // all its items were let go of since it was listed
		return out
	}
	if headsOnly || l.narrow || len(s.rules) > 0 {
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
		s.listSequence(l, false)
	}
	return out
}

// takeDoubts moves up to n items that may be ours to claiming and appends them to out, which is empty, whatever their sequences say: until that is known, others find
// them busy.
func (s *sched) takeDoubts(n int, out []*Item) []*Item {
	for len(out) < n && s.doubtQ.len() > 0 {
		if it := s.doubtQ.pop(); it.maybe {
			out = s.takeOne(it, out)
		}
	}
	return out
}

// takeOne claims one item, unless it is not to be claimed, a rule refuses it or another copy of its key is in hand.
func (s *sched) takeOne(it *Item, out []*Item) []*Item {
	if it.phase != queued || !s.grab(it) {
		return out
	}
	s.setPhase(it, claiming)
	return append(out, it)
}

// requeue makes an item that is not ours claimable again. One that may be ours keeps its key: a copy would be taken for it.
func (s *sched) requeue(it *Item) {
	if !it.maybe {
		s.letGo(it)
	}
	s.relist(it)
}

// relist makes an item claimable that was in hand before.
func (s *sched) relist(it *Item) {
	s.setPhase(it, queued)
	if l := it.sequence; l != nil {
		l.scan = l.head
	}
	s.list(it, true)
}

// won notes that the item is ours. It may run if it heads its sequence; behind a head that waits it is to be released.
func (s *sched) won(it *Item) {
	s.setPhase(it, claimed)
	if !it.isHead() && it.sequence.gated {
		s.toRelease = append(s.toRelease, it)
	} else if it.isHead() {
		if l := it.sequence; l != nil && l.gated {
			l.gated = false
			s.listSequence(l, false)
		}
		s.readyQ.push(it)
	}
}

// listSequence offers what the sequence holds to be claimed.
func (s *sched) listSequence(l *sequence, due bool) {
	if !l.listed || due && !l.urgent {
		l.listed, l.urgent = true, due
		s.claimQ.push(slot{sequence: l}, due)
	}
}

// hold makes an item that is not ours wait until due. One that may be ours keeps its key.
func (s *sched) hold(it *Item, due time.Duration) {
	if !it.maybe {
		s.letGo(it)
	}
	s.setPhase(it, waiting)
	it.due = due
	heap.Push(&s.waits, it)
	if it.isHead() {
		s.gate(it.sequence)
	}
}

// gate closes the sequence behind a head that waits; what is claimed behind it is to be released at once: else two workers
// could each hold what the other's head waits for.
func (s *sched) gate(l *sequence) {
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

// wake makes what is due claimable.
func (s *sched) wake(now time.Duration) {
	for len(s.waits) > 0 && s.waits[0].due <= now {
		s.relist(heap.Pop(&s.waits).(*Item))
	}
}

// remove lets go of an item for good.
func (s *sched) remove(it *Item) {
	s.letGo(it)
	if len(s.rules) > 0 {
		s.rules.forget(it, s.relist)
	}
	s.waits.remove(it)
	s.setPhase(it, finished)
	s.held--
	s.bytes.Remove(it.Size)
	s.logs.leave(it)
	s.prune()
	l := it.sequence
	if l == nil {
		return
	}
	wasHead := l.head == it
	l.unlink(it)
	if l.head == nil {
		delete(s.sequences, l.name)
	} else if wasHead {
		s.newHead(l)
	}
}

// newHead lets a sequence go on with its new head.
func (s *sched) newHead(l *sequence) {
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
	if l.gated = false; l.head.isWaiting() {
		s.gate(l)
	} else {
		s.listSequence(l, false)
	}
}

// prune drops entries of items that were let go of or went on meanwhile, when most of a queue are: while all handlers
// are busy nobody takes them out, and each holds on to a message.
func (s *sched) prune() {
	limit := 2*s.held + 1024
	if s.claimQ.len() > limit {
		s.claimQ.filter(func(e slot) bool {
			return e.sequence != nil && e.sequence.head != nil || e.sequence == nil && e.item.phase == queued
		})
	}
	if s.doubtQ.len() > limit {
		s.doubtQ.filter(func(it *Item) bool { return it.phase == queued && it.maybe })
	}
	if s.readyQ.len() > limit {
		s.readyQ.filter(func(it *Item) bool { return it.phase == claimed })
	}
	if s.suspectQ.len() > limit {
		s.suspectQ.filter(func(it *Item) bool { return it.phase == suspect })
	}
}

// grab says whether an item may be claimed, and takes its key in hand. One that may not waits: for a place of a rule, or behind the
// item that has its key. That needs no place.
func (s *sched) grab(it *Item) bool {
	admitted := len(s.rules) == 0 || s.rules.admit(it)
	if admitted && s.holdKey(it) {
		return true
	}
	if admitted {
		s.rules.leave(it, s.relist)
		r := s.inflight.get(&it.sum).more()
		r.followers = append(r.followers, it)
	}
	s.setPhase(it, waiting)
	it.due = 0
	if it.NoWait {
		s.declined = append(s.declined, it)
	}
	if it.isHead() {
		s.gate(it.sequence)
	}
	return false
}

// holdKey takes the key of an item in hand that is ours, or about to be; false: another copy has it.
func (s *sched) holdKey(it *Item) bool {
	if other := s.inflight.get(&it.sum); other != nil && other != it {
		return false
	}
	if !it.holds {
		s.inflight.put(it)
		it.holds = true
	}
	return true
}

// letGo gives the item's key and places back; those that waited for them may ask.
func (s *sched) letGo(it *Item) {
	if !it.holds {
		return
	}
	it.holds = false
	s.inflight.remove(it)
	if len(s.rules) > 0 {
		s.rules.leave(it, s.relist)
	}
	if it.extra == nil {
		return
	}
	followers := it.extra.followers
	it.extra.followers = nil
	for _, f := range followers {
		if f.phase == waiting && f.heapAt == 0 {
			s.requeue(f)
		}
	}
}
