package items

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Each implements [driver.Apart]: each message or log in a transaction of its own, and what is one write goes in batches. A claim,
// and a settlement of ranges, does not look at its owner's item: it reads only while the owner's lease runs by this process' clock,
// and what is answered later is lost. Where the table has no room for some of several, the others wait for a moment, and get their
// answers.
func (s *Store) Each(ctx context.Context, call driver.Call, fn func(driver.Tx, int) error) (busy map[int]error, err error) {
	e := &each{Store: s, call: call, fn: fn, known: s.remembered(call)}
	e.unread = maps.Clone(e.known)
	for i := range call.Len() {
		e.left = append(e.left, i)
	}
	mine := call.Op == driver.Claim || len(call.Logs) > 0 // it holds only as long as its owner's lease runs
	e.empty, err = s.fetchLogs(ctx, call.Logs, e.known)
	for n := 0; err == nil && len(e.left) > 0; n++ {
		if mine && !s.alive(call.Owner) {
			return nil, ledger.ErrLost
		}
		err = e.round(ctx, n)
	}
	switch {
	case driver.Busy(err):
		busy = make(map[int]error, len(e.left))
		for _, i := range e.left {
			busy[i] = err
		}
	case err != nil:
		return nil, storage.MarkPartly(e.wrote, err)
	}
	if mine && !s.alive(call.Owner) {
		return nil, ledger.ErrLost // what comes now came too late: a peer may have declared the owner dead, and taken what it had
	}
	return busy, nil
}

// each is a call of many messages or logs.
type each struct {
	*Store
	call   driver.Call
	fn     func(driver.Tx, int) error
	known  map[Name]Item
	unread map[Name]Item // of it: as this process left it, and not read since
	empty  map[driver.LogID]bool
	left   []int // which have no answer
	wrote  bool
}

// round runs what is left once, and writes it. After an error of which [driver.Busy] is true nothing was written of what is left then.
func (e *each) round(ctx context.Context, n int) error {
	hurried := ctx
	if e.call.Len() > 1 {
		hurried = impatient(ctx)
	}
	sets, wants, err := e.run(hurried)
	if err != nil {
		return err
	}
	again, err := e.commit(hurried, sets)
	e.wrote = e.wrote || slices.ContainsFunc(sets, func(set *Set) bool { return set.Written })
	if err != nil && !driver.Busy(err) {
		return err
	}
	e.left = append(wants.left, again.left...)
	slices.Sort(e.left)
	for _, set := range sets {
		if set.Written {
			err = errors.Join(err, set.tx.after())
		}
	}
	if err != nil {
		return err
	}
	if err := e.fetch(hurried, append(wants.names, again.names...), e.known); err != nil {
		return err
	}
	if len(again.left) > 0 {
		e.empty = nil // a log that was begun meanwhile may have left rows
	}
	if n > conflictsFree && len(again.left) > 0 {
		if why := Rest(ctx, min(n-conflictsFree, 4)); why != nil {
			return conflict(why)
		}
	}
	return nil
}

// conflictsFree is how often what others were ahead of is run again without a rest: what is new to one owner is often there.
const conflictsFree = 2

// wanted are transactions that are to run again, and what has to be read before.
type wanted struct {
	left  []int
	names []Name
}

// run runs the transactions of a call that are left, on what is known, and marks the blocks of all of them at once. One that
// writes nothing is run again if it has not read a message: whoever is told that there is nothing to do, or that all is lost, is told
// so of what was read.
func (e *each) run(ctx context.Context) (sets []*Set, wants wanted, err error) {
	var marks []Name
	for _, i := range e.left {
		t := e.newTx(ctx, e.call.Op, e.known)
		t.lazy, t.empty = true, e.empty
		err := e.fn(t, i)
		if len(t.wants) > 0 {
			wants.left, wants.names = append(wants.left, i), append(wants.names, t.wants...)
			continue
		}
		if err == nil {
			err = t.save()
		}
		if err != nil {
			return nil, wants, err
		}
		marks = append(marks, t.marks...)
		set, _ := t.set()
		if len(set.Changes) > 0 {
			set.i = i
			sets = append(sets, set)
			continue
		}
		for n := range t.cells {
			if _, guessed := e.unread[n]; guessed {
				delete(e.unread, n)
				wants.left, wants.names = append(wants.left, i), append(wants.names, n)
			}
		}
	}
	return sets, wants, e.mark(ctx, marks)
}

// fetchLogs reads logs. Of those that are not known yet it asks at once, and of all together, what their beginning needs: whether they are
// listed, the floor of tokens, and whether they have rows; empty are those that have none.
func (s *Store) fetchLogs(ctx context.Context, ids []driver.LogID, known map[Name]Item) (empty map[driver.LogID]bool, err error) {
	if err := s.fetch(ctx, namesOf(driver.Call{Logs: ids}), known); err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id driver.LogID) bool { return known[logName(id)] != nil })
	if len(ids) == 0 {
		return nil, nil
	}
	names, places := []Name{metaFloor}, make([]string, len(ids))
	for i, id := range ids {
		names = append(names, Name{placeLogs, string(id[:])})
		places[i] = placeBlocks + string(id[:])
	}
	if err := s.fetch(ctx, names, known); err != nil { // the floor first: a log that goes behind the look for rows changes it
		return nil, err
	}
	some, err := s.table.Any(ctx, places)
	if err != nil {
		return nil, err
	}
	empty = map[driver.LogID]bool{}
	for i, id := range ids {
		empty[id] = !some[places[i]]
	}
	return empty, nil
}

// commit writes what transactions of one message have to write. again are those that were not written: others were ahead of them,
// they touch what an earlier one of the same call does, or, with the error, there was no room for them.
func (e *each) commit(ctx context.Context, sets []*Set) (again wanted, err error) {
	var now []*Set
	written, checked := map[Name]bool{}, map[Name]bool{}
	for _, set := range sets {
		if slices.ContainsFunc(set.Changes, func(c Change) bool { return written[c.Name] || !c.Check && checked[c.Name] }) {
			again.add(set)
			continue
		}
		now = append(now, set)
		for _, c := range set.Changes {
			if checked[c.Name] = true; !c.Check {
				written[c.Name] = true
			}
		}
	}
	err = e.write(ctx, now...)
	for _, set := range now {
		switch {
		case set.Written:
			continue
		case set.Behind:
			forget(e.known, set)
		}
		if again.add(set); set.Stands != nil { // it was told what stands there
			again.names = again.names[:len(again.names)-1]
			e.known[set.Changes[0].Name] = set.Stands
		}
	}
	return again, err
}

// forget lets what belongs to the messages of a set be read anew, after these: a delivery that was not archived may be by now.
func forget(known map[Name]Item, set *Set) {
	for _, c := range set.Changes {
		if isMessage(c.Name) {
			maps.DeleteFunc(known, func(n Name, _ Item) bool {
				return n.Place == c.Name.Place && n.Sort[0] != kindMessage[0] && n.Sort[1] == c.Name.Sort[1]
			})
		}
	}
}

// add is for a transaction whose items are to be read anew.
func (w *wanted) add(set *Set) {
	w.left = append(w.left, set.i)
	for _, c := range set.Changes {
		w.names = append(w.names, c.Name)
	}
}

// heldMost bounds how many messages of this process' owners are remembered. One that is not is read before it is settled.
const heldMost = 1 << 14

// remembered are the messages of a call of settlements, as this process left them. They need not be read: a write on what
// has changed since changes nothing, and is told what stands there.
func (s *Store) remembered(call driver.Call) map[Name]Item {
	known := map[Name]Item{}
	if call.Op != driver.Settle || call.Keys == nil {
		return known
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range call.Keys {
		if i, ok := s.held[key]; ok {
			known[MessageName(key)] = i
		}
	}
	return known
}

// recalls fills in a message as this process left it, if it remembers that.
func (s *Store) recalls(c *cell) bool {
	if !isMessage(c.name) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.held[keyOf(c.name)]
	if ok {
		c.was, c.is, c.known = i, i, true
	}
	return ok
}

// Remember notes what a set has left that was written.
func (s *Store) Remember(set *Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range set.Changes {
		if c.Check || !isMessage(c.Name) {
			continue
		}
		key := keyOf(c.Name)
		delete(s.held, key)
		if c.Is == nil {
			continue
		}
		if _, mine := s.lives[getNumber[driver.OwnerID](c.Is, attrOwner)]; mine {
			if len(s.held) >= heldMost { // some are of owners that lost them
				clear(s.held)
			}
			s.held[key] = c.Is
		}
	}
}
