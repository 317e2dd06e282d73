package flow

import (
	"maps"
	"slices"
)

// budget decides whether the archive of a worker's scopes has room for what may fail next. It is pure: no lock, no clock, no
// I/O.
type budget struct {
	limit  int64 // bytes of each scope; 0: there is no budget
	scopes map[string]*archived
	latest string // the scope that was met last: mostly the next one, too
	over   string // a scope that has no room, or of which that is not known yet
	stops  bool   // there is one: nothing starts
}

// archived is what a scope has in the archive.
type archived struct {
	known bool
	read  int64 // what the ledger said last
	since int64 // what failed here that is not in read: archived since, or on its way
	asked int64 // how much of since was archived when the ledger was asked
}

func (a *archived) bytes() int64 { return a.read + a.since }

// meet takes a scope in. It says whether it is new: the ledger is to be asked.
func (b *budget) meet(scope string) bool {
	if b.limit == 0 || scope == b.latest && len(b.scopes) > 0 {
		return false
	}
	b.latest = scope
	if b.scopes[scope] != nil {
		return false
	}
	if b.scopes == nil {
		b.scopes = map[string]*archived{}
	}
	b.scopes[scope] = &archived{}
	b.decide()
	return true
}

// keep forgets the scopes of which nothing is in hand, if there is something of another: what a worker had of them has gone to
// others, and is none of its business until it meets them again. It says whether what stopped goes on.
func (b *budget) keep(inHand map[string]bool) bool {
	if !b.stops || len(inHand) == 0 {
		return false
	}
	maps.DeleteFunc(b.scopes, func(scope string, _ *archived) bool { return !inHand[scope] })
	b.latest = ""
	b.decide()
	return !b.stops
}

// spend counts what fails of a scope that this worker has met, and is to be archived.
func (b *budget) spend(scope string, bytes int64) {
	if a := b.scopes[scope]; a != nil {
		a.since += bytes
		b.decide()
	}
}

// ask notes that the ledger is asked now. What is on its way to the archive may not be in the answer, and stays counted.
func (b *budget) ask(scope string, onItsWay int64) {
	a := b.scopes[scope]
	a.asked = max(a.since-onItsWay, 0)
}

// answered takes what the ledger said.
func (b *budget) answered(scope string, bytes int64) {
	a := b.scopes[scope]
	a.known, a.read, a.since, a.asked = true, bytes, a.since-a.asked, 0
	b.decide()
}

// names are those of the scopes, in order.
func (b *budget) names() []string { return slices.Sorted(maps.Keys(b.scopes)) }

// decide prefers a scope that has no room to one of which that is not known.
func (b *budget) decide() {
	b.over, b.stops = "", false
	for _, scope := range b.names() {
		a := b.scopes[scope]
		full := a.known && a.bytes() >= b.limit
		if full || !a.known && !b.stops {
			b.over, b.stops = scope, true
		}
		if full {
			return
		}
	}
}
