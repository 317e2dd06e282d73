package dynamodbtest

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

func errorAnswer(body map[string]any) *answer { return jsonAnswer(http.StatusBadRequest, body) }

func jsonAnswer(status int, body any) *answer {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // it is made of texts
	}
	return &answer{status: status, body: text, header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}}
}

// raw is an object of which most is handed on as it is.
type raw map[string]json.RawMessage

// list is a field that holds a list.
func (r raw) list(field string) (all []json.RawMessage) {
	_ = json.Unmarshal(r[field], &all) // what is no list has no parts
	return all
}

func (r raw) set(field string, value any) error {
	text, err := json.Marshal(value)
	r[field] = text
	return err
}

// joinSets changes the statements of a request.
func (c *call) joinSets() error {
	var body map[string]any
	if !strings.Contains(c.operation, "Execute") || json.Unmarshal(c.body, &body) != nil {
		return nil
	}
	join := func(of any) {
		if request, ok := of.(map[string]any); ok {
			if text, ok := request["Statement"].(string); ok && len(text) > 6 && strings.EqualFold(text[:6], "UPDATE") {
				request["Statement"] = joinSets(text)
			}
		}
	}
	join(body)
	for _, list := range []string{"Statements", "TransactStatements"} {
		if all, ok := body[list].([]any); ok {
			for _, one := range all {
				join(one)
			}
		}
	}
	text, err := json.Marshal(body)
	c.body = text
	return err
}

// countParts is how many parts of a batch can be refused by themselves.
func countParts(c *call) (n int) {
	var body raw
	if json.Unmarshal(c.body, &body) != nil {
		return 0
	}
	switch c.operation {
	case "BatchExecuteStatement":
		return len(body.list("Statements"))
	case "BatchGetItem":
		for _, table := range requested(body) {
			n += len(table.list("Keys"))
		}
	}
	return n
}

func requested(body raw) (tables map[string]raw) {
	_ = json.Unmarshal(body["RequestItems"], &tables) // what is no request has no parts
	return tables
}

// withParts delivers a batch without the parts that are refused, and puts these into the answer.
func (t *Transport) withParts(ctx context.Context, c *call, f Fault) (*answer, error) {
	var body raw
	if len(f.Parts) == 0 || json.Unmarshal(c.body, &body) != nil {
		return t.deliver(ctx, c)
	}
	t.mu.Lock()
	t.usage.Parts += len(f.Parts)
	t.mu.Unlock()
	switch c.operation {
	case "BatchExecuteStatement":
		return t.withStatements(ctx, c, f, body)
	case "BatchGetItem":
		return t.withKeys(ctx, c, f, body)
	}
	return t.deliver(ctx, c)
}

func (t *Transport) withStatements(ctx context.Context, c *call, f Fault, body raw) (*answer, error) {
	all := body.list("Statements")
	kept, _ := divide(all, f.Parts)
	a := jsonAnswer(http.StatusOK, raw{})
	if len(kept) > 0 {
		err := c.replace(body, "Statements", kept)
		if err != nil {
			return nil, err
		}
		if a, err = t.deliver(ctx, c); err != nil || a.status != http.StatusOK {
			return a, err
		}
	}
	var got raw
	if err := json.Unmarshal(a.body, &got); err != nil {
		return nil, err
	}
	came, responses := got.list("Responses"), make([]any, len(all))
	code := f.Code
	if short[code] == "" {
		code = CodeThrottled
	}
	for i := range all {
		if slices.Contains(f.Parts, i) {
			responses[i] = map[string]any{"Error": map[string]any{"Code": short[code], "Message": messageOf(code)}}
		} else if len(came) > 0 {
			responses[i], came = came[0], came[1:]
		}
	}
	return a.with(got, "Responses", responses)
}

func (t *Transport) withKeys(ctx context.Context, c *call, f Fault, body raw) (*answer, error) {
	tables, unprocessed, first := requested(body), map[string]raw{}, 0
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		table := tables[name]
		all := table.list("Keys")
		parts := make([]int, 0, len(f.Parts))
		for _, part := range f.Parts {
			parts = append(parts, part-first)
		}
		first += len(all)
		kept, cut := divide(all, parts)
		if len(cut) == 0 {
			continue
		}
		rest := maps.Clone(table)
		if err := rest.set("Keys", cut); err != nil {
			return nil, err
		}
		unprocessed[name] = rest
		if err := table.set("Keys", kept); err != nil {
			return nil, err
		}
		if len(kept) == 0 {
			delete(tables, name)
		}
	}
	a := jsonAnswer(http.StatusOK, map[string]any{"Responses": raw{}})
	if len(tables) > 0 {
		err := c.replace(body, "RequestItems", tables)
		if err != nil {
			return nil, err
		}
		if a, err = t.deliver(ctx, c); err != nil || a.status != http.StatusOK {
			return a, err
		}
	}
	var got raw
	if err := json.Unmarshal(a.body, &got); err != nil {
		return nil, err
	}
	var left map[string]raw
	_ = json.Unmarshal(got["UnprocessedKeys"], &left) // mostly none
	for name, table := range left {
		if mine, ok := unprocessed[name]; ok {
			if err := table.set("Keys", append(table.list("Keys"), mine.list("Keys")...)); err != nil {
				return nil, err
			}
		}
		unprocessed[name] = table
	}
	return a.with(got, "UnprocessedKeys", unprocessed)
}

// divide parts a list in what is kept and what is cut out.
func divide(all []json.RawMessage, parts []int) (kept, cut []json.RawMessage) {
	for i, one := range all {
		if slices.Contains(parts, i) {
			cut = append(cut, one)
		} else {
			kept = append(kept, one)
		}
	}
	return kept, cut
}

// replace changes a field of the request.
func (c *call) replace(body raw, field string, value any) error {
	if err := body.set(field, value); err != nil {
		return err
	}
	text, err := json.Marshal(body)
	c.body = text
	return err
}

// with is the answer with another field. Its checksum is gone: a client then checks none.
func (a *answer) with(body raw, field string, value any) (*answer, error) {
	if err := body.set(field, value); err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	header := a.header.Clone()
	header.Del("X-Amz-Crc32")
	header.Del("Content-Length")
	return &answer{status: a.status, header: header, body: text}, err
}
