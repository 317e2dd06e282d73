package flow

// line is items that wait in their order, of which any may leave: those that are due again and those that are new, in turns while there
// are both. Behind a long backlog of its name a short backoff would last as long as that.
type line struct {
	waiting    map[*Item]struct{}
	due, fresh queue[*Item] // those that wait, and some that do not any more
	turn       bool         // the last one taken was due
}

func newLine() line { return line{waiting: map[*Item]struct{}{}} }

func (l *line) len() int { return len(l.waiting) }

func (l *line) push(it *Item) {
	l.waiting[it] = struct{}{}
	if it.met {
		l.due.push(it)
	} else {
		l.fresh.push(it)
	}
}

// pop takes the first that waits; the line must not be empty.
func (l *line) pop() *Item {
	for {
		l.turn = l.fresh.len() == 0 || l.due.len() > 0 && !l.turn
		of := &l.fresh
		if l.turn {
			of = &l.due
		}
		it := of.pop()
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
	if l.due.len()+l.fresh.len() > 2*len(l.waiting)+64 {
		waits := func(it *Item) bool {
			_, waits := l.waiting[it]
			return waits
		}
		l.due.filter(waits)
		l.fresh.filter(waits)
	}
	return true
}
