package items

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// errWants ends a run of a transaction that has to read first.
var errWants = errors.New("ledger: the transaction has to read first")

// tx implements [driver.Tx]: it reads items one by one, each with its version, and keeps what it writes until it commits.
type tx struct {
	*Store
	ctx    context.Context
	op     driver.Op
	now    time.Time
	known  map[Name]Item // what was read for it
	cells  map[Name]*cell
	logs   map[driver.LogID]*logTx
	trust  bool                  // what this process has left of a message need not be read
	empty  map[driver.LogID]bool // logs that have no rows
	lazy   bool                  // it is run again with what it wants
	skewed bool                  // it has read what belongs to a message after the message
	wants  []Name                // that it has not been given
	marks  []Name                // blocks that are to have rows: they are marked before
	gone   []Name                // beginnings of the names of steps that go after the commit: see stepStart
	debris []Name                // items that go then
	blanks []Item                // items that are written then: what stays of chunks that are purged
	trims  map[trim]int64        // that are done with it
}

func (s *Store) newTx(ctx context.Context, op driver.Op, known map[Name]Item) *tx {
	return &tx{Store: s, ctx: ctx, op: op, now: s.table.Now().Truncate(time.Microsecond), known: known, cells: map[Name]*cell{}}
}

// Now implements [driver.Reader].
func (t *tx) Now() time.Time { return t.now }

// cell is what is known of an item, without reading it.
func (t *tx) cell(n Name) *cell {
	c := t.cells[n]
	if c == nil {
		c = &cell{name: n}
		if c.was, c.known = t.known[n]; c.known {
			c.is = c.was
		}
		t.cells[n] = c
	}
	return c
}

// read is an item as the transaction sees it.
func (t *tx) read(n Name) (*cell, error) {
	c := t.cell(n)
	switch {
	case c.known || c.put:
	case t.lazy:
		t.wants = append(t.wants, n)
		return nil, errWants
	case t.trust && t.recalls(c):
	default:
		found, err := t.table.Get(t.ctx, []Name{n})
		if err != nil {
			return nil, err
		}
		c.was, c.known = found[n], true
		c.is = c.was
	}
	return c, nil
}

// saw is an item that a list has brought, as the transaction sees it.
func (t *tx) saw(i Item) *cell {
	c := t.cell(NameOf(i))
	if !c.known && !c.put {
		c.was, c.is, c.known = i, i, true
	}
	return c
}

// cell is what a transaction knows and makes of one item.
type cell struct {
	name  Name
	was   Item // as it was read; nil: there was none
	known bool // it was read, or is known to be as it was left
	is    Item // as it is to be; nil: it goes
	put   bool // is holds
	check bool // not put, and the transaction stands only if it is as it was read
}

func (c *cell) change() Change { return Change{Name: c.name, Was: c.was, Is: c.is} }

// write makes the cell's item another one; nil: it goes.
func (c *cell) write(i Item) {
	if c.put, c.is = true, i; i != nil {
		i[attrVersion] = newVersion()
	}
}

// set is what the transaction writes and checks, in the order of the items' names.
func (t *tx) set() (set *Set, writes int) {
	set = &Set{tx: t}
	for _, c := range t.cells {
		switch {
		case c.put && (c.was != nil || c.is != nil):
			writes++
			set.Changes = append(set.Changes, c.change())
		case c.check:
			set.Changes = append(set.Changes, Change{Name: c.name, Was: c.was, Check: true})
		}
	}
	slices.SortFunc(set.Changes, func(a, b Change) int { return a.Name.Compare(b.Name) })
	return set, writes
}

// touch writes what was read as it is: a transaction that is still under way finds another version then, and changes
// nothing. So what is read is the end of it.
func (t *tx) touch(set *Set) (writes int) {
	set.Changes = nil
	for _, c := range t.cells {
		if c.was != nil && (isMessage(c.name) || c.name.Place[0] == placeLog[0]) {
			c.write(maps.Clone(c.was))
			set.Changes = append(set.Changes, c.change())
		}
	}
	return len(set.Changes)
}

// finish makes items of what the transaction has changed in logs, and what is to be there before it commits.
func (t *tx) finish() error {
	if err := t.save(); err != nil {
		return err
	}
	return t.mark(t.ctx, t.marks)
}

// save makes items of what the transaction has changed in logs.
func (t *tx) save() error {
	for _, g := range t.logs {
		if err := g.save(); err != nil {
			return err
		}
	}
	return nil
}

// after carries out what need not be part of the transaction, which is there: an error says nothing of it.
func (t *tx) after() error {
	t.trimmed(t)
	return ledger.MarkUnknown(t.cleanUp())
}

func (t *tx) cleanUp() error {
	for _, start := range t.gone {
		if err := t.dropSteps(t.ctx, start); err != nil {
			return err
		}
	}
	if err := t.table.Delete(t.ctx, t.debris); err != nil {
		return err
	}
	if err := t.table.Put(t.ctx, t.blanks); err != nil {
		return err
	}
	for id, g := range t.logs {
		if len(g.Owed) > 0 {
			if err := t.carryOut(t.ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Message implements [driver.Reader].
func (t *tx) Message(key driver.Key, delivery []byte) (*driver.Message, error) {
	c, err := t.read(MessageName(key))
	if err != nil {
		return nil, err
	}
	if c.is == nil {
		if there, err := t.settled(key); err != nil || !there {
			return nil, err
		}
		return t.Message(key, delivery)
	}
	c.check = t.op == driver.Operate
	m, err := decodeMessage(c.is)
	if err != nil || delivery == nil {
		return m, err
	}
	a, err := t.read(archiveName(key, delivery))
	if err != nil {
		return nil, err
	}
	m.Archived = keeps(a.is, t.now)
	together := m.State == ledger.Failed && bytes.Equal(m.Failed, delivery) // they were written at one moment
	if m.Archived && !together && !c.put && !a.put {
		return t.again(c, a)
	}
	return m, nil
}

// again reads a message of which a delivery is archived until both are of one moment: the delivery may have been archived between the two
// reads, or the message reopened, and be another by then.
func (t *tx) again(c, a *cell) (*driver.Message, error) {
	for {
		found, err := t.table.Get(t.ctx, []Name{c.name})
		if err != nil {
			return nil, err
		}
		is := found[c.name]
		if is == nil && t.lazy {
			t.wants = append(t.wants, c.name) // it is run again, without the message
			return nil, errWants
		}
		if is == nil {
			return nil, nil
		}
		same := bytes.Equal(is[attrVersion].Bytes, c.is[attrVersion].Bytes)
		c.was, c.is = is, is
		if !same {
			if found, err = t.table.Get(t.ctx, []Name{a.name}); err != nil {
				return nil, err
			}
			a.was, a.is = found[a.name], found[a.name]
		}
		archived := keeps(a.is, t.now)
		if same || !archived {
			m, err := decodeMessage(c.is)
			if err == nil {
				m.Archived = archived
			}
			return m, err
		}
	}
}

// Insert implements [driver.Tx]. Whether there is a row is found out by the write, unless it is known.
func (t *tx) Insert(m *driver.Message) (bool, error) {
	n := MessageName(m.Key)
	if t.cell(n).is != nil {
		return false, nil
	}
	if m.Logged {
		if there, err := t.settled(m.Key); err != nil || there {
			return false, err
		}
		t.marks = append(t.marks, blockName(m.Key))
	}
	if err := t.addScope(t.ctx, m.Scope); err != nil {
		return false, err
	}
	t.cell(n).write(encodeMessage(m, nil, 0))
	return true, nil
}

// Put implements [driver.Tx].
func (t *tx) Put(m *driver.Message) error {
	c, err := t.read(MessageName(m.Key))
	if err != nil {
		return err
	}
	life, steps := getBytes(c.is, attrLife), getNumber[int](c.is, attrSteps)
	was, generation := getNumber[ledger.State](c.is, attrState), getNumber[int](c.is, attrGeneration)
	if steps > 0 && (was == ledger.Succeeded && m.State != ledger.Succeeded || m.Generation != generation) {
		t.gone = append(t.gone, stepStart(c.name, life))
		life, steps = nil, 0
	}
	i := encodeMessage(m, life, steps)
	setTTL(i, m)
	c.write(i)
	return nil
}

// setTTL lets a message that is finished go by itself: unless it has a result, whose past the sweep may have to keep, or it failed
// and a range may say that it has succeeded.
func setTTL(i Item, m *driver.Message) {
	if m.State != ledger.Pending && m.Result == nil && (!m.Covered || m.State == ledger.Succeeded) {
		i[attrTTL] = Number(m.Expiry.Unix() + 1)
	}
}

// Succeed implements [driver.Tx]: what this process holds is known without it.
func (t *tx) Succeed(driver.Key, uint64, driver.OwnerID, []byte, time.Time) (bool, error) {
	return false, nil
}

// Remove implements [driver.Tx].
func (t *tx) Remove(keys []driver.Key) error {
	if len(keys) == 0 {
		return nil
	}
	_, scopes, err := t.storedScopes()
	if err != nil {
		return err
	}
	for _, key := range keys {
		c, err := t.read(MessageName(key))
		if err != nil {
			return err
		}
		if c.is == nil {
			continue
		}
		m, err := decodeMessage(c.is)
		if err != nil {
			return err
		}
		if keep := scopes[encodeScope(m.Scope)]; m.Result != nil && keep > 0 {
			t.outlive(m, keep)
		}
		if getNumber[int](c.is, attrSteps) > 0 {
			t.gone = append(t.gone, stepStart(c.name, getBytes(c.is, attrLife)))
		}
		c.write(nil)
	}
	return nil
}

// Owner implements [driver.Reader].
func (t *tx) Owner(id driver.OwnerID) (driver.Owner, error) {
	if o, ok := t.own(id); ok {
		return o, nil
	}
	c, err := t.read(OwnerName(id))
	if err != nil {
		return driver.Owner{}, err
	}
	return t.sees(id, c.is, t.now), nil
}

// Turn implements [driver.Reader].
func (t *tx) Turn() (driver.Turn, error) {
	var turn driver.Turn
	_, err := t.meta(metaTurn, &turn)
	return turn, err
}

// PutTurn implements [driver.Tx].
func (t *tx) PutTurn(turn driver.Turn) error {
	var was driver.Turn
	c, err := t.meta(metaTurn, &was)
	if err != nil {
		return err
	}
	if turn.Pass == nil {
		turn.Pass = was.Pass
	}
	return t.putMeta(c, turn)
}
