package engine

// fifo is a queue that reuses its array.
type fifo[T any] struct {
	buf  []T
	head int
}

func (q *fifo[T]) len() int { return len(q.buf) - q.head }

func (q *fifo[T]) push(v T) {
	if q.head > 64 && q.head*2 >= len(q.buf) {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
	q.buf = append(q.buf, v)
}

// pushFront puts v before the oldest.
func (q *fifo[T]) pushFront(v T) {
	if q.head == 0 {
		q.buf = append(q.buf, v)
		copy(q.buf[1:], q.buf)
		q.buf[0] = v
		return
	}
	q.head--
	q.buf[q.head] = v
}

// pop takes the oldest; the queue must not be empty.
func (q *fifo[T]) pop() T {
	var zero T
	v := q.buf[q.head]
	q.buf[q.head] = zero
	q.head++
	if q.head == len(q.buf) {
		q.buf, q.head = q.buf[:0], 0
	}
	return v
}

// filter keeps the elements for which keep is true, in order.
func (q *fifo[T]) filter(keep func(T) bool) {
	kept := q.buf[:0]
	for _, v := range q.buf[q.head:] {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	clear(q.buf[len(kept):])
	q.buf, q.head = kept, 0
}

// backlog is the claim queue: what is due again, and what is new, in turns while there is both.
type backlog struct {
	due, fresh fifo[slot]
	turn       bool // the last one taken was due
}

func (b *backlog) len() int { return b.due.len() + b.fresh.len() }

func (b *backlog) push(e slot, due bool) {
	if due {
		b.due.push(e)
	} else {
		b.fresh.push(e)
	}
}

// pop takes the next; the backlog must not be empty.
func (b *backlog) pop() slot {
	b.turn = b.fresh.len() == 0 || b.due.len() > 0 && !b.turn
	if b.turn {
		return b.due.pop()
	}
	return b.fresh.pop()
}

func (b *backlog) filter(keep func(slot) bool) {
	b.due.filter(keep)
	b.fresh.filter(keep)
}

// prune drops entries of items that were let go of or went on meanwhile, when most of a queue are: while all handlers
// are busy nobody takes them out, and each holds on to a message.
func (s *sched) prune() {
	limit := 2*s.held + 1024
	if s.claimQ.len() > limit {
		s.claimQ.filter(func(e slot) bool {
			return e.lane != nil && e.lane.head != nil || e.lane == nil && e.item.phase == queued
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

func (l *lane) push(it *Item) {
	it.lane = l
	if l.scan == nil {
		l.scan = it
	}
	if l.tail == nil {
		l.head, l.tail = it, it
		return
	}
	it.prev, l.tail.next = l.tail, it
	l.tail = it
}

func (l *lane) unlink(it *Item) {
	if l.scan == it {
		l.scan = it.next
	}
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		l.head = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		l.tail = it.prev
	}
	it.prev, it.next = nil, nil
}

// waitHeap is a heap of waiting items by due time (container/heap).
type waitHeap []*Item

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h waitHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i+1, j+1
}

// Push appends an item; container/heap calls it.
func (h *waitHeap) Push(x any) {
	it := x.(*Item)
	*h = append(*h, it)
	it.heapAt = len(*h)
}

// Pop takes the last item; container/heap calls it.
func (h *waitHeap) Pop() any {
	old := *h
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	it.heapAt = 0
	return it
}
