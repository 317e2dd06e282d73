package flow

// Rule says which items may be in flight at the same time, beside what their keys and their order say. An item asks for a place
// when it could be claimed, and has it until it is not ours any more, and cannot be. What may be ours keeps its place: it is
// claimed past all rules.
//
// A rule belongs to one flow, which calls it. What it decides depends on these calls alone.
type Rule interface {
	// Admit gives the item a place, or keeps it among those that wait for one; false: it waits. A rule with an order among those that
	// wait refuses while others do, though there is room.
	Admit(it *Item) bool
	// Next gives a place to one of those that wait, in their order; nil: there is none for any of them. It is asked after each
	// Leave, until it says nil: one that waited may have kept others waiting, too.
	Next() *Item
	// Leave takes back the item's place, or ends its waiting; the rule knows which. An item whose waiting has ended never asks again.
	Leave(it *Item)
	// Empty says that no item has a place or waits for one, and that nothing is kept of those that did.
	Empty() bool
}

// rules are those of a flow, in the order in which an item asks them. It has places of the first ones while it waits for the next:
// who waits for a rule never waits for one before it, so the places of the last one always come free.
type rules []Rule

// admit asks for the places that an item does not have yet; false: it waits for one.
func (r rules) admit(it *Item) bool {
	for int(it.admitted) < len(r) {
		if !r[it.admitted].Admit(it) {
			it.refused = true
			return false
		}
		it.admitted++
	}
	return true
}

// leave gives back all places of an item. Those that get one may be claimed.
func (r rules) leave(it *Item, claimable func(*Item)) {
	for it.admitted > 0 {
		it.admitted--
		r.left(r[it.admitted], it, claimable)
	}
}

// forget gives back all places of an item, and ends its waiting for another.
func (r rules) forget(it *Item, claimable func(*Item)) {
	if it.refused {
		it.refused = false
		r.left(r[it.admitted], it, claimable)
	}
	r.leave(it, claimable)
}

func (r rules) left(rule Rule, it *Item, claimable func(*Item)) {
	rule.Leave(it)
	for next := rule.Next(); next != nil; next = rule.Next() {
		next.refused = false
		next.admitted++
		claimable(next)
	}
}

func (r rules) empty() bool {
	for _, rule := range r {
		if !rule.Empty() {
			return false
		}
	}
	return true
}
