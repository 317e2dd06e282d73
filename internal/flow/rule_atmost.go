package flow

// atMost is a rule: of the items with one name so many are in flight at most.
type atMost struct {
	limit int
	name  func(*Item) string
	named map[string]*sharers
	left  *sharers // of whom one has left, until Next has nobody more of them
}

// sharers are the items in hand with one name.
type sharers struct {
	placed  int
	waiting map[*Item]struct{}
	order   queue[*Item] // those that wait, in order, and some that do not any more
}

// AtMost is a rule: at most limit items with the same name are in flight. Names do not change. An item without one is free.
func AtMost(limit int, name func(*Item) string) Rule {
	return &atMost{limit: limit, name: name, named: map[string]*sharers{}}
}

// Admit implements Rule.
func (a *atMost) Admit(it *Item) bool {
	name := a.name(it)
	if name == "" {
		return true
	}
	s := a.named[name]
	if s == nil {
		s = &sharers{waiting: map[*Item]struct{}{}}
		a.named[name] = s
	}
	if s.placed < a.limit {
		s.placed++
		return true
	}
	s.waiting[it] = struct{}{}
	s.order.push(it)
	return false
}

// Next implements Rule.
func (a *atMost) Next() *Item {
	s := a.left
	for s != nil && s.placed < a.limit && s.order.len() > 0 {
		it := s.order.pop()
		if _, waits := s.waiting[it]; waits {
			delete(s.waiting, it)
			s.placed++
			return it
		}
	}
	a.left = nil
	return nil
}

// Leave implements Rule.
func (a *atMost) Leave(it *Item) {
	name := a.name(it)
	if name == "" {
		return
	}
	s := a.named[name]
	if _, waits := s.waiting[it]; waits {
		delete(s.waiting, it)
		s.prune()
	} else {
		s.placed--
	}
	if a.left = s; s.placed+len(s.waiting) == 0 {
		a.left = nil
		delete(a.named, name)
	}
}

// prune drops those that do not wait any more, when most are such: each holds on to a message.
func (s *sharers) prune() {
	if s.order.len() > 2*len(s.waiting)+64 {
		s.order.filter(func(it *Item) bool {
			_, waits := s.waiting[it]
			return waits
		})
	}
}

// Empty implements Rule.
func (a *atMost) Empty() bool { return len(a.named) == 0 && a.left == nil }
