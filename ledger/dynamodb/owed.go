package dynamodb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ackledger/ackledger/ledger/driver"
)

// owedFrom is how many rows of a transaction are owed instead of written with it.
const owedFrom = transactMost / 2

// owe takes new rows of the log out of a transaction that is too large, and notes them in the log.
func (g *logTx) owe() {
	var rows []*cell
	for n, c := range g.tx.cells {
		if c.put && c.was == nil && c.is != nil && n.place[0] == placeMessages[0] && n.place[1:9] == string(g.id[:]) && n.sort[0] == kindMessage[0] {
			rows = append(rows, c)
		}
	}
	if len(rows) < owedFrom {
		return
	}
	slices.SortFunc(rows, func(a, b *cell) int { return a.name.compare(b.name) })
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
func (s *store) carryOut(ctx context.Context, id driver.LogID) error {
	n := logName(id)
	for try := 0; ; try++ {
		found, err := s.get(ctx, []name{n})
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
		is := n.key()
		is[attrData] = blob(data)
		c.write(is)
		lost, err := s.writeBatch(ctx, []*unit{{changes: []change{{c}}}})
		if err != nil || len(lost) == 0 {
			return err
		}
		if rest(ctx, try) != nil {
			return busy(ctx, errConflict)
		}
	}
}

// payRows writes rows that are owed, but for those that are there.
func (s *store) payRows(ctx context.Context, id driver.LogID, g *storedLog, o *owedRows) error {
	set, err := driver.DecodeSet(o.Offsets, 0)
	if err != nil {
		return fmt.Errorf("log %x: %w", id, err)
	}
	var units []*unit
	var marks []name
	info := driver.Info{Prefix: string(g.Prefix)}
	for _, span := range set.Spans() {
		for offset := span.From; offset < span.To; offset++ {
			m := o.Message
			m.Key, m.Scope, m.ID = driver.JoinKey(id, offset), string(g.Scope), info.ID(offset)
			c := &cell{name: messageName(m.Key)}
			c.write(encodeMessage(&m, nil, 0))
			units = append(units, &unit{changes: []change{{c}}})
			marks = append(marks, blockName(m.Key))
		}
	}
	if err := s.mark(ctx, marks); err != nil {
		return err
	}
	_, err = s.writeAll(ctx, units, nil) // one that others were ahead of is there
	return err
}
