package dynamodbtest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func TestItemSize(t *testing.T) {
	for text, want := range map[string]int{
		`{}`:                                 0,
		`{"id":{"S":"abc"}}`:                 5,
		`{"id":{"S":"é"}}`:                   4,
		`{"n":{"N":"0"}}`:                    2, // a byte, and none for digits
		`{"n":{"N":"7"}}`:                    3,
		`{"n":{"N":"42"}}`:                   3,
		`{"n":{"N":"123"}}`:                  4,
		`{"n":{"N":"-0012300.00"}}`:          4,
		`{"n":{"N":"1E125"}}`:                3,
		`{"b":{"B":"AAECAw=="}}`:             5,
		`{"b":{"BOOL":false}}`:               2,
		`{"b":{"NULL":true}}`:                2,
		`{"l":{"L":[]}}`:                     4,
		`{"l":{"L":[{"S":"ab"},{"N":"1"}]}}`: 4 + 1 + 2 + 1 + 2,
		`{"m":{"M":{"k":{"S":"ab"}}}}`:       4 + 1 + 1 + 2,
		`{"s":{"SS":["ab","c"]}}`:            4,
		`{"s":{"NS":["1","23"]}}`:            5,
		`{"s":{"BS":["AAE="]}}`:              3,
		`{"a":{"S":"1"},"bc":{"N":"5"}}`:     2 + 4,
	} {
		var got wireItem
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if size := ItemSize(item(got)); size != want {
			t.Errorf("%s: %d bytes, want %d", text, size, want)
		}
		again, err := json.Marshal(got)
		if err != nil || string(again) != text {
			t.Errorf("%s becomes %s (%v)", text, again, err)
		}
	}
	var none wireItem
	if err := json.Unmarshal([]byte(`{"a":{}}`), &none); err == nil {
		t.Error("a value of no type is read")
	}
}

func TestParseStatement(t *testing.T) {
	const parameters = `[{"S":"one"},{"N":"2"},{"S":"three"}]`
	for _, c := range []struct{ text, verb, table, values string }{
		{`INSERT INTO "my-table" VALUE {'id': ?, 'n':?, 'l': [1, 'x', {'y': true}], 'e': {}}`, "INSERT", "my-table",
			`{"id":{"S":"one"},"n":{"N":"2"},"l":{"L":[{"N":"1"},{"S":"x"},{"M":{"y":{"BOOL":true}}}]},"e":{"M":{}}}`},
		{`insert into t value {'it''s': 'o''clock', 'z': null, 's': <<'a','b'>>, 'ns': <<1,-2.5e3>>}`, "INSERT", "t",
			`{"it's":{"S":"o'clock"},"z":{"NULL":true},"s":{"SS":["a","b"]},"ns":{"NS":["1","-2.5e3"]}}`},
		{`UPDATE "t" SET a = ?, b = b + 1 REMOVE c WHERE "id" = ? AND sk=? AND begins_with(x, 'y') AND a <> ? RETURNING ALL OLD *`, "UPDATE", "t",
			`{"id":{"N":"2"},"sk":{"S":"three"}}`},
		{`DELETE FROM t WHERE id = 'a' AND sk = 7`, "DELETE", "t", `{"id":{"S":"a"},"sk":{"N":"7"}}`},
		{`SELECT * FROM "t"."index" WHERE id=?`, "SELECT", "t", `{"id":{"S":"one"}}`},
		{`UPDATE t SET n = 1 WHERE id = ? AND other = size(x)`, "UPDATE", "t", `{"id":{"S":"one"}}`},
	} {
		var bound []wireValue
		if err := json.Unmarshal([]byte(parameters), &bound); err != nil {
			t.Fatal(err)
		}
		s, err := parseStatement(c.text, bound)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var want wireItem
		if err := json.Unmarshal([]byte(c.values), &want); err != nil {
			t.Fatal(err)
		}
		if s.verb != c.verb || s.table != c.table || !reflect.DeepEqual(s.values, item(want)) {
			got, _ := json.Marshal(wireItem(s.values))
			t.Errorf("%s: %s of %s with %s", c.text, s.verb, s.table, got)
		}
	}
	for text, want := range map[string]string{
		"":                               "no statement",
		"SLECT 1":                        "no statement",
		"INSERT INTO t VALUE ?":          "without an item",
		"INSERT INTO t VALUE {'a': ?":    "no parameter",
		"INSERT INTO t VALUE {'a': 1":    "ends within an item",
		"INSERT INTO t VALUE {'a': [1":   "ends within a list",
		"INSERT INTO t VALUE {'a': next": "where a value should be",
	} {
		parameters := []wireValue{{&types.AttributeValueMemberS{}}}
		if strings.Contains(want, "parameter") {
			parameters = nil
		}
		if _, err := parseStatement(text, parameters); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got %v", text, want, err)
		}
	}
}

func TestIndexesAreChargedForWhatChanges(t *testing.T) {
	s := func(text string) types.AttributeValue { return &types.AttributeValueMemberS{Value: text} }
	x := index{keys: []string{"id", "failed"}, more: []string{"why"}}
	in := item{"id": s("1"), "failed": s("a"), "why": s("w"), "body": s(strings.Repeat("b", 5000))}
	with := func(name, value string) item {
		i := item{}
		for n, v := range in {
			i[n] = v
		}
		if delete(i, name); value != "" {
			i[name] = s(value)
		}
		return i
	}
	for name, c := range map[string]struct {
		before, after item
		want          float64
	}{
		"sparse":                {with("failed", ""), with("failed", ""), 0},
		"comes":                 {nil, in, 1},
		"goes":                  {in, nil, 1},
		"leaves the index":      {in, with("failed", ""), 1},
		"what it does not hold": {in, with("body", "c"), 0},
		"what it holds":         {in, with("why", strings.Repeat("w", 2000)), 2},
		"moves":                 {in, with("failed", "b"), 2},
	} {
		if got := x.charge(c.before, c.after); got != c.want {
			t.Errorf("%s: %g units, want %g", name, got, c.want)
		}
	}
	x.all = true
	if got := x.charge(nil, in); got != 5 {
		t.Errorf("whole items: %g units, want 5", got)
	}
}

func TestJoinSets(t *testing.T) {
	for text, want := range map[string]string{
		`UPDATE "t" SET a = ? SET b=b+1 REMOVE c REMOVE d WHERE id = ? AND set = 'SET'`: `UPDATE "t" SET a = ? , b=b+1 REMOVE c , d WHERE id = ? AND set = 'SET'`,
		`UPDATE t set a = 'x SET y' REMOVE c SET b = 2`:                                 `UPDATE t SET a = 'x SET y' REMOVE c SET b = 2`,
		`UPDATE t SET "set" = 1, b = 2 WHERE id = ?`:                                    `UPDATE t SET "set" = 1, b = 2 WHERE id = ?`,
	} {
		if got := joinSets(text); got != want {
			t.Errorf("%s\nbecomes\n%s", text, got)
		}
	}
}
