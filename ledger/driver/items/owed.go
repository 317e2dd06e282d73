package items

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ackledger/ackledger/ledger/driver"
)

// owe takes new rows of the log out of a transaction of which they are half of all that it may have, and notes them in the log.
func (g *logTx) owe() {
	var rows []*cell
	for n, c := range g.tx.cells {
		if c.put && c.was == nil && c.is != nil && n.Place[0] == placeMessages[0] && n.Place[1:9] == string(g.id[:]) && n.Sort[0] == kindMessage[0] {
			rows = append(rows, c)
		}
	}
	if len(rows) < g.tx.bounds.Set/2 {
		return
	}
	slices.SortFunc(rows, func(a, b *cell) int { return a.name.Compare(b.name) })
	sets := map[string]*driver.Set{}
	var kinds []owedRows
	for _, c := range rows {
		m, err := decodeMessage(c.is)
		if err != nil {
			continue // it stays in the transaction, which is refused then
		}
		_, offset := driver.SplitKey(m.Key)
		m.Key, m.Scope, m.ID = driver.Key{}, "", nil
		text, err := json.Marshal(m)
		if err != nil {
			continue
		}
		set := sets[string(text)]
		if set == nil {
			set = &driver.Set{}
			sets[string(text)] = set
			kinds = append(kinds, owedRows{Offsets: text, Message: *m})
		}
		set.Add(driver.Span{From: offset, To: offset + 1})
		c.put, c.is = false, nil
	}
	for _, k := range kinds {
		k.Offsets = sets[string(k.Offsets)].Encode(0)
		g.Owed = append(g.Owed, k)
	}
}

// carryOut writes what a log owes, and then strikes it out. Any number of processes may do so at once.
func (s *Store) carryOut(ctx context.Context, id driver.LogID) error {
	n := logName(id)
	for try := 0; ; try++ {
		found, err := s.table.Get(ctx, []Name{n})
		if err != nil || found[n] == nil {
			return err
		}
		var g storedLog
		if err := json.Unmarshal(getBytes(found[n], attrData), &g); err != nil {
			return fmt.Errorf("log %x: %w", id, err)
		}
		if len(g.Owed) == 0 {
			return nil
		}
		for i := range g.Owed {
			if err := s.payRows(ctx, id, &g, &g.Owed[i]); err != nil {
				return err
			}
		}
		g.Owed = nil
		data, err := json.Marshal(&g)
		if err != nil {
			return err
		}
		c := &cell{name: n, was: found[n]}
		is := n.Item()
		is[attrData] = Bytes(data)
		c.write(is)
		set := &Set{Changes: []Change{c.change()}}
		if err := s.write(ctx, set); err != nil || set.Written {
			return err
		}
		if Rest(ctx, try) != nil {
			return conflict(ctx)
		}
	}
}

// payRows writes rows that are owed, but for those that are there.
func (s *Store) payRows(ctx context.Context, id driver.LogID, g *storedLog, o *owedRows) error {
	set, err := driver.DecodeSet(o.Offsets, 0)
	if err != nil {
		return fmt.Errorf("log %x: %w", id, err)
	}
	var sets []*Set
	var marks []Name
	info := driver.Info{Prefix: string(g.Prefix)}
	for _, span := range set.Spans() {
		for offset := span.From; offset < span.To; offset++ {
			m := o.Message
			m.Key, m.Scope, m.ID = driver.JoinKey(id, offset), string(g.Scope), info.ID(offset)
			c := &cell{name: MessageName(m.Key)}
			c.write(encodeMessage(&m, nil, 0))
			sets = append(sets, &Set{Changes: []Change{c.change()}})
			marks = append(marks, blockName(m.Key))
		}
	}
	if err := s.mark(ctx, marks); err != nil {
		return err
	}
	return s.write(ctx, sets...) // one that others were ahead of is there
}
