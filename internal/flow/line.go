package flow

// line is items that wait in their order, of which any may leave.
type line struct {
	waiting map[*Item]struct{}
	order   queue[*Item] // those that wait, and some that do not any more
}

func newLine() line { return line{waiting: map[*Item]struct{}{}} }

func (l *line) len() int { return len(l.waiting) }

func (l *line) push(it *Item) {
	l.waiting[it] = struct{}{}
	l.order.push(it)
}

// pop takes the first that waits; the line must not be empty.
func (l *line) pop() *Item {
	for {
		it := l.order.pop()
		if _, waits := l.waiting[it]; waits {
			delete(l.waiting, it)
			return it
		}
	}
}

// leave says whether the item waited, and ends that. Entries of those that left are dropped when most are such: each holds on to a
// message.
func (l *line) leave(it *Item) bool {
	if _, waits := l.waiting[it]; !waits {
		return false
	}
	delete(l.waiting, it)
	if l.order.len() > 2*len(l.waiting)+64 {
		l.order.filter(func(it *Item) bool {
			_, waits := l.waiting[it]
			return waits
		})
	}
	return true
}
