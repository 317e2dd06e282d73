package dynamodb

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// A step is an item of its own, and the message counts them. The message's life, drawn with the first step, is in their names:
// a message that is reopened has another one, and its older steps are nobody's at that very moment, however long they stay.

// stepStart is what the names of a message's steps of one life begin with.
func stepStart(message name, life []byte) name {
	return name{message.place, kindStep + message.sort[1:] + string(life)}
}

// Steps implements [driver.Reader].
func (t *tx) Steps(key driver.Key, results bool) ([]ledger.Step, error) {
	c, err := t.read(messageName(key))
	if err != nil || c.is == nil || getNumber[int](c.is, attrSteps) == 0 {
		return nil, err
	}
	start := stepStart(c.name, getBytes(c.is, attrLife))
	var list []ledger.Step
	for i, err := range t.all(t.ctx, &query{place: start.place, start: start.sort}) {
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
	c, err := t.read(messageName(key))
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
	is[attrSteps] = number(len(there) + 1)
	c.write(is)
	n := stepStart(c.name, getBytes(is, attrLife))
	n.sort += string(binary.BigEndian.AppendUint32(nil, uint32(len(there))))
	step := n.key()
	step[attrData] = blob(data)
	t.cell(n).write(step)
	return nil
}

// dropSteps removes steps that are nobody's: those of a message, but for the life that is kept.
func (s *store) dropSteps(ctx context.Context, message name, keep []byte) error {
	var names []name
	for i, err := range s.all(ctx, &query{place: message.place, start: kindStep + message.sort[1:], keys: true}) {
		if err != nil {
			return err
		}
		if n := nameOf(i); len(keep) == 0 || n.sort[2:2+len(keep)] != string(keep) {
			names = append(names, n)
		}
	}
	return s.drop(ctx, names)
}

// orphans removes steps of a page whose messages are gone, or have another life: DynamoDB has removed the messages.
func (s *store) orphans(ctx context.Context, steps []name) error {
	messages := map[name][]name{}
	for _, n := range steps {
		m := name{n.place, kindMessage + n.sort[1:2]}
		messages[m] = append(messages[m], n)
	}
	there, err := s.get(ctx, keysOf(messages))
	if err != nil {
		return err
	}
	var gone []name
	for m, list := range messages {
		life := string(getBytes(there[m], attrLife))
		for _, n := range list {
			if life == "" || n.sort[2:2+len(life)] != life {
				gone = append(gone, n)
			}
		}
	}
	return s.drop(ctx, gone)
}

// drop removes items that nobody changes any more.
func (s *store) drop(ctx context.Context, names []name) error {
	var requests []types.WriteRequest
	for _, n := range names {
		requests = append(requests, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: n.key()}})
	}
	return s.writeRequests(ctx, requests)
}
