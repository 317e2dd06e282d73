package dynamodbtest

import (
	"encoding/json"
	"maps"
	"slices"
)

// access is one item that a request reads or writes.
type access struct {
	table string
	// key holds the key's attributes, and maybe others.
	key item
	// carried is the item that a put brings along; nil where only the server knows what comes out.
	carried item
	write   bool
	strong  bool
}

// factor is what a unit costs within a transaction: it is prepared, then committed.
const factor = 2

// request is what a request does to items, for counting.
type request struct {
	accesses []access
	times    float64 // of a unit
	token    string  // by which a transaction that is sent again is known
	// read is a Query, a Scan or a SELECT outside of a batch: how much it reads only the answer tells.
	read, strong bool
}

// fields are those of all requests that matter here, by the names of the protocol.
type fields struct {
	TableName          string
	Key, Item          wireItem
	ConsistentRead     bool
	ClientRequestToken string
	RequestItems       json.RawMessage
	TransactItems      []map[string]fields
	Statement          string
	Parameters         []wireValue
	Statements         []fields
	TransactStatements []fields
}

// parseRequest says what a request does. An operation that is not about items does nothing here.
func parseRequest(operation string, body []byte) (*request, error) {
	r := &request{times: 1}
	switch operation {
	case "GetItem", "PutItem", "UpdateItem", "DeleteItem", "BatchGetItem", "BatchWriteItem", "TransactGetItems", "TransactWriteItems",
		"ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction", "Query", "Scan":
	default:
		return r, nil
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, err
	}
	r.token = f.ClientRequestToken
	switch operation {
	case "GetItem":
		r.accesses = []access{{table: f.TableName, key: item(f.Key), strong: f.ConsistentRead}}
	case "PutItem":
		r.accesses = []access{put(f.TableName, f.Item)}
	case "UpdateItem", "DeleteItem":
		r.accesses = []access{{table: f.TableName, key: item(f.Key), write: true}}
	case "Query", "Scan":
		r.read, r.strong = true, f.ConsistentRead
	case "BatchGetItem":
		return r, r.gets(f.RequestItems)
	case "BatchWriteItem":
		return r, r.writes(f.RequestItems)
	case "TransactGetItems", "TransactWriteItems":
		r.times = factor
		r.actions(f.TransactItems)
	case "ExecuteStatement":
		r.statements(f)
		r.read = !r.accesses[0].write
		r.strong = f.ConsistentRead
	case "BatchExecuteStatement":
		r.statements(f.Statements...)
	case "ExecuteTransaction":
		r.times = factor
		r.statements(f.TransactStatements...)
	}
	return r, nil
}

func put(table string, i wireItem) access {
	return access{table: table, key: item(i), carried: item(i), write: true}
}

func (r *request) gets(items json.RawMessage) error {
	var tables map[string]struct {
		Keys           []wireItem
		ConsistentRead bool
	}
	if err := json.Unmarshal(items, &tables); err != nil {
		return err
	}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		for _, key := range tables[table].Keys {
			r.accesses = append(r.accesses, access{table: table, key: item(key), strong: tables[table].ConsistentRead})
		}
	}
	return nil
}

func (r *request) writes(items json.RawMessage) error {
	var tables map[string][]struct {
		PutRequest    *struct{ Item wireItem }
		DeleteRequest *struct{ Key wireItem }
	}
	if err := json.Unmarshal(items, &tables); err != nil {
		return err
	}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		for _, w := range tables[table] {
			switch {
			case w.PutRequest != nil:
				r.accesses = append(r.accesses, put(table, w.PutRequest.Item))
			case w.DeleteRequest != nil:
				r.accesses = append(r.accesses, access{table: table, key: item(w.DeleteRequest.Key), write: true})
			}
		}
	}
	return nil
}

// actions are those of a transaction: a condition alone costs what a write costs.
func (r *request) actions(all []map[string]fields) {
	for _, action := range all {
		for kind, f := range action {
			switch kind {
			case "Put":
				r.accesses = append(r.accesses, put(f.TableName, f.Item))
			case "Get":
				r.accesses = append(r.accesses, access{table: f.TableName, key: item(f.Key), strong: true})
			default:
				r.accesses = append(r.accesses, access{table: f.TableName, key: item(f.Key), write: true})
			}
		}
	}
}

func (r *request) statements(all ...fields) {
	for _, f := range all {
		s, err := parseStatement(f.Statement, f.Parameters)
		if err != nil {
			s = &statement{verb: "UPDATE"} // it keeps its place among the answers: the server refuses it
		}
		a := access{table: s.table, key: s.values, write: s.verb != "SELECT", strong: f.ConsistentRead || r.times == factor}
		if s.verb == "INSERT" {
			a.carried = s.values
		}
		r.accesses = append(r.accesses, a)
	}
}
