package items

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// A step is an item of its own, and the message counts them. The message's life, drawn with the first step, is in their names:
// a message that is reopened has another one, and its older steps are nobody's at that very moment, however long they stay.

// stepStart is what the names of a message's steps of one life begin with.
func stepStart(message Name, life []byte) Name {
	return Name{message.Place, kindStep + message.Sort[1:] + string(life)}
}

// Steps implements [driver.Reader].
func (t *tx) Steps(key driver.Key, results bool) ([]ledger.Step, error) {
	c, err := t.read(MessageName(key))
	if err != nil || c.is == nil || getNumber[int](c.is, attrSteps) == 0 {
		return nil, err
	}
	t.skewed = true
	start := stepStart(c.name, getBytes(c.is, attrLife))
	var list []ledger.Step
	for i, err := range t.table.Query(t.ctx, Query{Place: start.Place, Prefix: start.Sort}) {
		var s ledger.Step
		if err == nil {
			err = json.Unmarshal(getBytes(i, attrData), &s)
		}
		if err != nil {
			return nil, err
		}
		if !results {
			s.Result, s.Size = nil, len(s.Result)
		}
		list = append(list, s)
	}
	return list, nil
}

// Record implements [driver.Tx].
func (t *tx) Record(key driver.Key, s *ledger.Step) error {
	c, err := t.read(MessageName(key))
	if err != nil {
		return err
	}
	there, err := t.Steps(key, false)
	if err != nil {
		return err
	}
	for i := range there {
		if there[i].Name == s.Name {
			return nil
		}
	}
	stored := s.Clone()
	if stored.Result == nil {
		stored.Result = []byte{}
	}
	data, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("step %q: %w", s.Name, err)
	}
	is := maps.Clone(c.is)
	if len(there) == 0 {
		is[attrLife] = newVersion()
	}
	is[attrSteps] = Number(len(there) + 1)
	c.write(is)
	n := stepStart(c.name, getBytes(is, attrLife))
	n.Sort += string(binary.BigEndian.AppendUint32(nil, uint32(len(there))))
	step := n.Item()
	step[attrData] = Bytes(data)
	t.cell(n).write(step)
	return nil
}

// dropSteps removes the steps of a life that is over. By the time at which they go the message may have another one, with steps that count.
func (s *Store) dropSteps(ctx context.Context, start Name) error {
	var names []Name
	for i, err := range s.table.Query(ctx, Query{Place: start.Place, Prefix: start.Sort, Names: true}) {
		if err != nil {
			return err
		}
		names = append(names, NameOf(i))
	}
	return s.table.Delete(ctx, names)
}

// orphans removes steps of a page whose messages are gone, or have another life: the table has removed the messages.
func (s *Store) orphans(ctx context.Context, steps []Name) error {
	messages := map[Name][]Name{}
	for _, n := range steps {
		m := Name{n.Place, kindMessage + n.Sort[1:2]}
		messages[m] = append(messages[m], n)
	}
	there, err := s.table.Get(ctx, slices.SortedFunc(maps.Keys(messages), Name.Compare))
	if err != nil {
		return err
	}
	var gone []Name
	for m, list := range messages {
		life := string(getBytes(there[m], attrLife))
		for _, n := range list {
			if life == "" || n.Sort[2:2+len(life)] != life {
				gone = append(gone, n)
			}
		}
	}
	return s.table.Delete(ctx, gone)
}
