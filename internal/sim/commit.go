package sim

import "time"

// own runs do when no commit is under way. do calls free at its end.
func (m *member) own(do func(free func())) {
	if m.owning {
		m.waiting = append(m.waiting, func() { m.own(do) })
		return
	}
	m.owning = true
	do(func() {
		m.owning = false
		if len(m.waiting) > 0 {
			next := m.waiting[0]
			m.waiting = m.waiting[1:]
			next()
		}
	})
}

// commitNow tells the broker what is finished, now and then.
func (m *member) commitNow() {
	m.own(func(free func()) {
		due := map[*assignment]offsetEpoch{}
		for _, c := range m.table.Due(m.clock()) {
			due[c.Of.Of.(*assignment)] = offsetEpoch{c.Offset, c.Epoch}
		}
		var list []*assignment
		for _, a := range m.assigns() {
			to, is := due[a]
			if a.mustBeDue(to, is, !a.closed); is {
				list = append(list, a)
			}
		}
		m.send(list, free)
	})
	if !m.draining {
		m.after(100*time.Millisecond, m.commitNow)
	}
}

// commitLast commits closed assignments once more, and lets go of them.
func (m *member) commitLast(list []*assignment, then func()) {
	m.own(func(free func()) {
		var due []*assignment
		for _, a := range list {
			c, is := a.Due(m.clock())
			if a.mustBeDue(offsetEpoch{c.Offset, c.Epoch}, is, !a.gone); is {
				due = append(due, a)
			}
		}
		m.send(due, func() {
			for _, a := range list {
				m.discard(a)
			}
			free()
			then()
		})
	})
}

// discard lets go of an assignment.
func (m *member) discard(a *assignment) {
	was := m.at(a.part)
	m.table.Discard(&a.Assignment)
	a.gone = true
	m.mustBeGone(a, was)
}

// mustBeGone checks that an assignment was let go of, and the one that was there only if it is that.
func (m *member) mustBeGone(a, was *assignment) {
	if is := m.at(a.part); is == a || was != a && is != was || !a.Gone() {
		m.breaks(none, "what is let go of is gone, and nothing else: %s has partition %d", m, a.part.number)
	}
}

func (m *member) has(delivery) bool { return true }

// drained commits all for the last time.
func (m *member) drained(then func()) {
	list := m.assigns()
	for _, a := range list {
		if !a.closed {
			m.close(a)
		}
	}
	m.commitLast(list, then)
}

// send commits. What is not confirmed is due again.
func (m *member) send(list []*assignment, then func()) {
	if len(list) == 0 {
		then()
		return
	}
	errs, to := make([]error, len(list)), make([]offsetEpoch, len(list))
	for i, a := range list {
		to[i].offset, to[i].epoch = a.Position()
	}
	m.request("a commit of offsets", timeout, func() error {
		for i, a := range list {
			errs[i] = m.cluster.commit(a.part, a, to[i])
		}
		return nil
	}, func(err error) {
		for i, a := range list {
			if err == nil && errs[i] == nil {
				a.Confirm(to[i].offset)
				a.confirmed = max(a.confirmed, to[i].offset)
			}
		}
		then()
	})
}
