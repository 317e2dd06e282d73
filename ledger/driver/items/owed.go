package items

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ackledger/ackledger/ledger/driver"
)

// owe takes new rows of the log out of a transaction of which those of all its logs are half of what it may have, and notes them in the log.
func (g *logTx) owe() {
	var rows []*cell
	all := 0
	for n, c := range g.tx.cells {
		if !c.put || c.was != nil || c.is == nil || !isMessage(n) {
			continue
		}
		if all++; n.Place[1:9] == string(g.id[:]) {
			rows = append(rows, c)
		}
	}
	if all < g.tx.bounds.Set/2 {
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
		paid := true
		for i := 0; i < len(g.Owed) && paid; i++ {
			if paid, err = s.payRows(ctx, found[n], &g, &g.Owed[i]); err != nil {
				return err
			}
		}
		if !paid {
			if why := Rest(ctx, try); why != nil {
				return conflict(why)
			}
			continue
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
		if why := Rest(ctx, try); why != nil {
			return conflict(why)
		}
	}
}

// payRows writes rows that are owed, but for those that are there, as long as the log is as it was read: one that has owed nothing any more
// for a while may have had them claimed, finished and removed. It says whether they all are there; if not, somebody was ahead. Their blocks
// were marked before the log owed them.
func (s *Store) payRows(ctx context.Context, log Item, g *storedLog, o *owedRows) (paid bool, err error) {
	id := driver.LogID([]byte(NameOf(log).Place[1:]))
	offsets, err := driver.DecodeSet(o.Offsets, 0)
	if err != nil {
		return false, fmt.Errorf("log %x: %w", id, err)
	}
	var rows []Change
	var names []Name
	info := driver.Info{Prefix: string(g.Prefix)}
	for _, span := range offsets.Spans() {
		for offset := span.From; offset < span.To; offset++ {
			m := o.Message
			m.Key, m.Scope, m.ID = driver.JoinKey(id, offset), string(g.Scope), info.ID(offset)
			c := &cell{name: MessageName(m.Key)}
			c.write(encodeMessage(&m, nil, 0))
			rows, names = append(rows, c.change()), append(names, c.name)
		}
	}
	there := map[Name]Item{}
	if err := s.fetch(ctx, names, there); err != nil {
		return false, err
	}
	rows = slices.DeleteFunc(rows, func(c Change) bool { return there[c.Name] != nil })
	for part := range slices.Chunk(rows, s.bounds.Set-1) {
		set := &Set{Changes: append([]Change{{Name: NameOf(log), Was: log, Check: true}}, part...)}
		if err := s.write(ctx, set); err != nil || !set.Written {
			return false, err
		}
	}
	return true, nil
}
