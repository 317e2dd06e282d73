package flow

func (l *sequence) push(it *Item) {
	it.sequence = l
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

func (l *sequence) unlink(it *Item) {
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

// backlog is the claim queue: what is due again, and what is new, in turns while there is both.
type backlog struct {
	due, fresh queue[slot]
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
