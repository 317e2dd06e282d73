package dynamodbtest

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Usage is what was counted since the transport was made.
type Usage struct {
	Calls     map[string]int   // requests that the client made, by operation
	Delivered map[string]int   // requests that reached the server, as often as they did
	Units     map[string]Units // what these consumed; empty without [Options.Capacity]
	Faults    map[Kind]int     // requests by what went wrong with them
	Parts     int              // parts of batches that were refused by themselves
	Uncounted int              // requests whose units could not be found out
}

// Total is what all operations consumed.
func (u *Usage) Total() Units {
	var total Units
	for _, units := range u.Units {
		total = total.Add(units)
	}
	return total
}

// Usage returns what was counted so far.
func (t *Transport) Usage() *Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.usage
	u.Calls, u.Delivered, u.Units, u.Faults = maps.Clone(u.Calls), maps.Clone(u.Delivered), maps.Clone(u.Units), maps.Clone(u.Faults)
	return &u
}

// deliver brings a request to the server and counts what it consumed.
func (t *Transport) deliver(ctx context.Context, c *call) (*answer, error) {
	t.mu.Lock()
	t.usage.Delivered[c.operation]++
	t.mu.Unlock()
	if !t.options.Capacity {
		return t.send(ctx, c)
	}
	m, err := t.measure(ctx, c)
	if err != nil {
		t.uncounted()
		return t.send(ctx, c)
	}
	a, err := t.send(ctx, c)
	if err != nil {
		t.uncounted() // nobody knows whether it was carried out
		return nil, err
	}
	units, err := m.charge(context.WithoutCancel(ctx), a)
	if err != nil {
		t.uncounted()
		return a, nil
	}
	t.mu.Lock()
	t.usage.Units[c.operation] = t.usage.Units[c.operation].Add(units)
	t.mu.Unlock()
	return a, nil
}

func (t *Transport) uncounted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usage.Uncounted++
}

// measured is a request whose items were looked at before it is carried out. These looks go to the server behind the client's back
// and are not counted. Another writer may come between a look and the request: then a size may be another's.
type measured struct {
	t       *Transport
	call    *call
	request *request
	tables  map[string]*table
	before  map[string]item
}

func (t *Transport) measure(ctx context.Context, c *call) (*measured, error) {
	m := &measured{t: t, call: c, tables: map[string]*table{}}
	var err error
	if m.request, err = parseRequest(c.operation, c.body); err != nil {
		return nil, err
	}
	if m.request.read {
		return m, c.ask("ReturnConsumedCapacity", "TOTAL")
	}
	for _, a := range m.request.accesses {
		if m.tables[a.table], err = t.table(ctx, c, a.table); err != nil {
			return nil, err
		}
	}
	m.before, err = m.look(ctx)
	return m, err
}

// ask adds a field to the request unless it has it.
func (c *call) ask(field, value string) error {
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(c.body))
	d.UseNumber()
	if err := d.Decode(&all); err != nil || all[field] != nil {
		return err
	}
	all[field] = value
	body, err := json.Marshal(all)
	c.body = body
	return err
}

// id names an item.
func id(table string, key item) (string, error) {
	text, err := json.Marshal(wireItem(key))
	return table + string(text), err
}

// keysOf is what BatchGetItem asks for, and what it leaves for later.
type keysOf struct {
	Keys           []wireItem
	ConsistentRead bool
}

// look reads the request's items as they are now.
func (m *measured) look(ctx context.Context) (map[string]item, error) {
	wanted, found := map[string]*keysOf{}, map[string]item{}
	for _, a := range m.request.accesses {
		key := keyOf(a.key, m.tables[a.table].keys)
		if len(key) == 0 {
			continue
		}
		name, err := id(a.table, key)
		if err != nil {
			return nil, err
		}
		if _, twice := found[name]; twice {
			continue
		}
		found[name] = nil
		if wanted[a.table] == nil {
			wanted[a.table] = &keysOf{ConsistentRead: true}
		}
		wanted[a.table].Keys = append(wanted[a.table].Keys, wireItem(key))
	}
	for len(wanted) > 0 {
		var got struct {
			Responses       map[string][]wireItem
			UnprocessedKeys map[string]*keysOf
		}
		if err := m.t.own(ctx, m.call, "BatchGetItem", map[string]any{"RequestItems": wanted}, &got); err != nil {
			return nil, err
		}
		for table, items := range got.Responses {
			for _, i := range items {
				name, err := id(table, keyOf(item(i), m.tables[table].keys))
				if err != nil {
					return nil, err
				}
				found[name] = item(i)
			}
		}
		wanted = got.UnprocessedKeys
	}
	return found, nil
}

// charged are the failures that cost what the write would have cost.
var charged = []string{"ConditionalCheckFailed", "DuplicateItem", "TransactionConflict"}

// outcome is what an answer says of a request and of its parts.
type outcome struct {
	Type                string `json:"__type"`
	CancellationReasons []struct{ Code string }
	Responses           json.RawMessage // of statements: a list; of BatchGetItem: items by table
	ConsumedCapacity    json.RawMessage
	Items               []wireItem
}

// charge is what the request consumed, by the answer and by a second look at the items.
func (m *measured) charge(ctx context.Context, a *answer) (units Units, err error) {
	var o outcome
	if err := json.Unmarshal(a.body, &o); err != nil {
		return units, err
	}
	if m.request.read {
		return o.read(a.status == http.StatusOK, m.request.strong)
	}
	cost, done, err := o.parts(m.call.operation, a.status, len(m.request.accesses))
	if err != nil || !slices.Contains(cost, true) {
		return units, err
	}
	after := m.before
	if slices.ContainsFunc(m.request.accesses, func(a access) bool { return a.write }) {
		if after, err = m.look(ctx); err != nil {
			return units, err
		}
	}
	again := m.t.again(m.request.token, done[0])
	for i := range m.request.accesses {
		a := &m.request.accesses[i]
		t := m.tables[a.table]
		name, err := id(a.table, keyOf(a.key, t.keys))
		switch {
		case err != nil:
			return units, err
		case !cost[i]:
		case again: // the answer of the first time is read
			units.Read += m.request.times * readUnits(ItemSize(after[name]), true)
		default:
			units = units.Add(a.charge(t, m.before[name], after[name], done[i], m.request.times))
		}
	}
	return units, nil
}

// parts says of each part of a request whether it costs, and whether it was carried out.
func (o *outcome) parts(operation string, status, n int) (cost, done []bool, err error) {
	cost, done = make([]bool, n), make([]bool, n)
	var statements []struct{ Error *struct{ Code string } }
	if operation == "BatchExecuteStatement" && status == http.StatusOK {
		if err := json.Unmarshal(o.Responses, &statements); err != nil {
			return nil, nil, err
		}
	}
	whole := status == http.StatusOK || slices.ContainsFunc(charged, func(code string) bool {
		return strings.Contains(o.Type, code) || slices.ContainsFunc(o.CancellationReasons, func(r struct{ Code string }) bool { return r.Code == code })
	})
	for i := range n {
		cost[i], done[i] = whole, status == http.StatusOK
		if i < len(statements) && statements[i].Error != nil {
			cost[i], done[i] = slices.Contains(charged, statements[i].Error.Code), false
		}
	}
	return cost, done, nil
}

// read is what a Query, a Scan or a SELECT consumed: what the server says, and otherwise what its items weigh together.
func (o *outcome) read(done, strong bool) (units Units, err error) {
	var says struct{ CapacityUnits float64 }
	switch {
	case !done:
	case o.ConsumedCapacity != nil:
		err = json.Unmarshal(o.ConsumedCapacity, &says)
		units.Read = says.CapacityUnits
	default:
		bytes := 0
		for _, i := range o.Items {
			bytes += ItemSize(item(i))
		}
		units.Read = readUnits(bytes, strong)
	}
	return units, err
}

// again says whether a transaction of this token has been committed before.
func (t *Transport) again(token string, done bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	again := t.tokens[token]
	if token != "" && done {
		t.tokens[token] = true
	}
	return again
}

// table is what the server says of a table; one that it does not know is empty.
func (t *Transport) table(ctx context.Context, c *call, name string) (*table, error) {
	if name == "" {
		return &table{}, nil
	}
	t.mu.Lock()
	known := t.tables[name]
	t.mu.Unlock()
	if known != nil {
		return known, nil
	}
	type schema []struct{ AttributeName string }
	type described []struct {
		KeySchema  schema
		Projection struct {
			ProjectionType   string
			NonKeyAttributes []string
		}
	}
	var got struct {
		Table *struct {
			KeySchema                                     schema
			GlobalSecondaryIndexes, LocalSecondaryIndexes described
		}
	}
	if err := t.own(ctx, c, "DescribeTable", map[string]any{"TableName": name}, &got); err != nil {
		return nil, err
	}
	known = &table{}
	if got.Table == nil {
		return known, nil
	}
	for _, key := range got.Table.KeySchema {
		known.keys = append(known.keys, key.AttributeName)
	}
	for _, x := range slices.Concat(got.Table.GlobalSecondaryIndexes, got.Table.LocalSecondaryIndexes) {
		i := index{keys: slices.Clone(known.keys), all: x.Projection.ProjectionType == "ALL", more: x.Projection.NonKeyAttributes}
		for _, key := range x.KeySchema {
			i.keys = append(i.keys, key.AttributeName)
		}
		known.indexes = append(known.indexes, i)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tables[name] = known
	return known, nil
}
