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
	placed int
	line   line // those that wait
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
		s = &sharers{line: newLine()}
		a.named[name] = s
	}
	if s.placed < a.limit {
		s.placed++
		return true
	}
	s.line.push(it)
	return false
}

// Next implements Rule.
func (a *atMost) Next() *Item {
	if s := a.left; s != nil && s.placed < a.limit && s.line.len() > 0 {
		s.placed++
		return s.line.pop()
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
	if !s.line.leave(it) {
		s.placed--
	}
	if a.left = s; s.placed+s.line.len() == 0 {
		a.left = nil
		delete(a.named, name)
	}
}

// Empty implements Rule.
func (a *atMost) Empty() bool { return len(a.named) == 0 && a.left == nil }
