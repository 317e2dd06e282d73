package dynamodb

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// Each implements [driver.Apart]: each message or log in a transaction of its own, and what is one write goes in batches. A claim,
// and a settlement of ranges, does not look at its owner's item: it reads only while the owner's lease runs by this process' clock,
// and what is answered later is lost.
func (s *store) Each(ctx context.Context, call driver.Call, fn func(driver.Tx, int) error) error {
	known := s.remembered(call)
	empty, err := s.fetchLogs(ctx, call.Logs, known)
	if err != nil {
		return err
	}
	left := make([]int, call.Len())
	for i := range left {
		left[i] = i
	}
	wrote := false
	mine := call.Op == driver.Claim || len(call.Logs) > 0 // it holds only as long as its owner's lease runs
	for n := 0; len(left) > 0; n++ {
		if mine && !s.alive(call.Owner) {
			return ledger.MarkPartly(wrote, ledger.ErrLost)
		}
		units, wants, err := s.runEach(ctx, call, known, empty, left, fn)
		if err != nil {
			return ledger.MarkPartly(wrote, err)
		}
		again, err := s.commitEach(ctx, units, known)
		wrote = wrote || slices.ContainsFunc(units, func(u *unit) bool { return u.done })
		for _, u := range units {
			if u.done && err == nil {
				err = u.tx.after()
			}
		}
		if err != nil {
			return ledger.MarkPartly(wrote, err)
		}
		if err := s.fetch(ctx, append(wants.names, again.names...), known); err != nil {
			return ledger.MarkPartly(wrote, err)
		}
		if len(again.units) > 0 { // what a log began with may be another's by now
			empty = nil
			delete(known, metaFloor)
		}
		left = append(wants.units, again.units...)
		slices.Sort(left)
		if n > conflictsFree && len(again.units) > 0 && rest(ctx, min(n-conflictsFree, 4)) != nil {
			return ledger.MarkPartly(wrote, busy(ctx, errConflict))
		}
	}
	if mine && !s.alive(call.Owner) {
		return ledger.ErrLost // what comes now came too late: a peer may have declared the owner dead, and taken what it had
	}
	return nil
}

// unit is one transaction of Each.
type unit struct {
	tx      *tx
	i       int
	changes []change
	done    bool // it is written
	old     item // of a single change: what stands there instead, if it was told
}

// conflictsFree is how often what others were ahead of is run again without a rest: what is new to one owner is often there.
const conflictsFree = 2

// wanted are transactions that are to run again, and what has to be read before.
type wanted struct {
	units []int
	names []name
}

// runEach runs the transactions of a call that are left, on what is known.
func (s *store) runEach(ctx context.Context, call driver.Call, known map[name]item, empty map[driver.LogID]bool, left []int, fn func(driver.Tx, int) error) (
	units []*unit, wants wanted, err error) {
	for _, i := range left {
		t := s.newTx(ctx, call.Op, known)
		t.lazy, t.empty = true, empty
		err := fn(t, i)
		if len(t.wants) > 0 {
			wants.units, wants.names = append(wants.units, i), append(wants.names, t.wants...)
			continue
		}
		if err == nil {
			err = t.finish()
		}
		if err != nil {
			return nil, wants, err
		}
		u := &unit{tx: t, i: i}
		if u.changes, _ = changes(t.cells); len(u.changes) > 0 {
			units = append(units, u)
		}
	}
	return units, wants, nil
}

// fetch reads what is wanted.
func (s *store) fetch(ctx context.Context, names []name, known map[name]item) error {
	if len(names) == 0 {
		return nil
	}
	slices.SortFunc(names, name.compare)
	names = slices.Compact(names)
	found, err := s.get(ctx, names)
	for _, n := range names {
		known[n] = found[n]
	}
	return err
}

// fetchLogs reads logs. Of those that are not known yet it asks at once, and of all together, what their beginning needs: whether they are
// listed, the floor of tokens, and whether they have rows; empty are those that have none.
func (s *store) fetchLogs(ctx context.Context, ids []driver.LogID, known map[name]item) (empty map[driver.LogID]bool, err error) {
	if err := s.fetch(ctx, namesOf(driver.Call{Logs: ids}), known); err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id driver.LogID) bool { return known[logName(id)] != nil })
	var names []name
	var mu sync.Mutex
	empty = map[driver.LogID]bool{}
	err = atOnce(ids, func(id driver.LogID) error {
		some, err := s.collect(ctx, &query{place: placeBlocks + string(id[:]), keys: true}, 1)
		mu.Lock()
		defer mu.Unlock()
		empty[id] = len(some) == 0 && err == nil
		names = append(names, metaFloor, name{placeLogs, string(id[:])})
		return err
	})
	if err != nil {
		return nil, err
	}
	return empty, s.fetch(ctx, names, known)
}

// commitEach writes what transactions of one message have to write. again are those that others were ahead of, or that touch
// what an earlier one of the same call does.
func (s *store) commitEach(ctx context.Context, units []*unit, known map[name]item) (again wanted, err error) {
	var single, whole []*unit
	taken := map[name]bool{}
	for _, u := range units {
		switch {
		case slices.ContainsFunc(u.changes, func(c change) bool { return taken[c.name] }):
			again.add(u)
			continue
		case len(u.changes) == 1:
			single = append(single, u)
		default:
			whole = append(whole, u)
		}
		for _, c := range u.changes {
			taken[c.name] = true
		}
	}
	lost, err := s.writeAll(ctx, single, whole)
	for _, u := range lost {
		if again.add(u); u.old != nil { // it was told what stands there
			again.names = again.names[:len(again.names)-1]
			known[u.changes[0].name] = u.old
		}
	}
	return again, err
}

// add is for a transaction whose items are to be read anew.
func (w *wanted) add(u *unit) {
	w.units = append(w.units, u.i)
	for _, c := range u.changes {
		w.names = append(w.names, c.name)
	}
}

// heldMost bounds how many messages of this process' owners are remembered. One that is not is read before it is settled.
const heldMost = 1 << 14

// remembered are the messages of a call of settlements, as this process left them. They need not be read: a write on what
// has changed since changes nothing, and is told what stands there.
func (s *store) remembered(call driver.Call) map[name]item {
	known := map[name]item{}
	if call.Op != driver.Settle || call.Keys == nil {
		return known
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range call.Keys {
		if i, ok := s.held[key]; ok {
			known[messageName(key)] = i
		}
	}
	return known
}

// recalls fills in a message as this process left it, if it remembers that.
func (s *store) recalls(c *cell) bool {
	if c.name.place[0] != placeMessages[0] || c.name.sort[0] != kindMessage[0] {
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

// written remembers what a transaction has left.
func (s *store) written(u *unit) {
	u.done = true
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range u.changes {
		if !c.put || c.name.sort[0] != kindMessage[0] || c.name.place[0] != placeMessages[0] {
			continue
		}
		key := keyOf(c.name)
		delete(s.held, key)
		if c.is == nil {
			continue
		}
		if _, mine := s.lives[getNumber[driver.OwnerID](c.is, attrOwner)]; mine {
			if len(s.held) >= heldMost { // some are of owners that lost them
				clear(s.held)
			}
			s.held[key] = maps.Clone(c.is)
		}
	}
}
