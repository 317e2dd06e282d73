package dynamodbtest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// echo answers each statement with its own text as an item.
func echo(_, body string) string {
	var request struct{ Statements []struct{ Statement string } }
	if err := json.Unmarshal([]byte(body), &request); err != nil {
		return "{}"
	}
	var responses []string
	for _, s := range request.Statements {
		responses = append(responses, fmt.Sprintf(`{"Item":{"says":{"S":%q}},"TableName":"t"}`, s.Statement))
	}
	return `{"Responses":[` + strings.Join(responses, ",") + `]}`
}

func TestStatementsAreRefusedOneByOne(t *testing.T) {
	u := &upstream{answer: echo}
	faults := []dynamodbtest.Fault{
		{Parts: []int{1, 3}, Code: dynamodbtest.CodeProvisioned},
		{Parts: []int{0, 1, 2, 3}},
		{Parts: []int{0}, Code: dynamodbtest.CodeConflict, Kind: dynamodbtest.AnswerLost},
	}
	var parts int
	client, faulty := through(t, dynamodbtest.Options{Base: u, Choose: func(c dynamodbtest.Call) dynamodbtest.Fault {
		parts = c.Parts
		return faults[c.N]
	}})
	input := &dynamodb.BatchExecuteStatementInput{}
	for _, s := range []string{"a", "b", "c", "d"} {
		input.Statements = append(input.Statements, types.BatchStatementRequest{Statement: &s})
	}
	for _, want := range []string{
		"a ProvisionedThroughputExceeded c ProvisionedThroughputExceeded", "ThrottlingError ThrottlingError ThrottlingError ThrottlingError",
	} {
		out, err := client.BatchExecuteStatement(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range out.Responses {
			if r.Error != nil {
				got = append(got, string(r.Error.Code))
				continue
			}
			got = append(got, r.Item["says"].(*types.AttributeValueMemberS).Value)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	if _, err := client.BatchExecuteStatement(t.Context(), input); err == nil {
		t.Error("the answer was not lost")
	}
	want := []string{
		`BatchExecuteStatement {"Statements":[{"Statement":"a"},{"Statement":"c"}]}`,
		`BatchExecuteStatement {"Statements":[{"Statement":"b"},{"Statement":"c"},{"Statement":"d"}]}`,
	}
	if !slices.Equal(u.got, want) {
		t.Errorf("the server got\n%s", strings.Join(u.got, "\n"))
	}
	if usage := faulty.Usage(); usage.Parts != 7 || parts != 4 || usage.Delivered["BatchExecuteStatement"] != 2 {
		t.Errorf("%d parts are counted of %d, usage %+v", usage.Parts, parts, usage)
	}
}

func TestKeysAreLeftUnprocessed(t *testing.T) {
	u := &upstream{answer: func(string, string) string {
		return `{"Responses":{"b":[{"id":{"S":"3"}}]},"UnprocessedKeys":{"b":{"Keys":[{"id":{"S":"9"}}]}}}`
	}}
	faults := []dynamodbtest.Fault{{Parts: []int{0, 1, 3}}, {Parts: []int{0, 1, 2, 3}}}
	client, _ := through(t, dynamodbtest.Options{Base: u, Choose: func(c dynamodbtest.Call) dynamodbtest.Fault { return faults[c.N] }})
	key := func(id string) attributes { return attributes{"id": text(id)} }
	input := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		"a": {Keys: []map[string]types.AttributeValue{key("1"), key("2")}},
		"b": {Keys: []map[string]types.AttributeValue{key("3"), key("4")}, ConsistentRead: aws.Bool(true)},
	}}
	for _, want := range []string{"a:1,2 b:9,4", "a:1,2 b:3,4"} {
		out, err := client.BatchGetItem(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, table := range []string{"a", "b"} {
			var ids []string
			for _, k := range out.UnprocessedKeys[table].Keys {
				ids = append(ids, k["id"].(*types.AttributeValueMemberS).Value)
			}
			got = append(got, table+":"+strings.Join(ids, ","))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("unprocessed are %s, want %s", text, want)
		}
	}
	want := `BatchGetItem {"RequestItems":{"b":{"ConsistentRead":true,"Keys":[{"id":{"S":"3"}}]}}}`
	if u.count() != 1 || u.got[0] != want {
		t.Errorf("the server got %q", u.got)
	}
}

// What is changed on its way would be refused by AWS with the client's signature.
func TestChangedRequestsAreSignedAnew(t *testing.T) {
	input := &dynamodb.BatchExecuteStatementInput{Statements: []types.BatchStatementRequest{{Statement: aws.String("a")}, {Statement: aws.String("b")}}}
	u := &upstream{answer: echo}
	client, _ := through(t, dynamodbtest.Options{
		Base: u, Region: "elsewhere", Credentials: aws.CredentialsProviderFunc(credentials),
		Choose: func(c dynamodbtest.Call) dynamodbtest.Fault { return dynamodbtest.Fault{Parts: []int{0}[:c.N]} },
	})
	for range 2 {
		if _, err := client.BatchExecuteStatement(t.Context(), input); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"Credential=test/", "Credential=other/"} {
		r := u.requests[i]
		if a := r.Header.Get("Authorization"); !strings.Contains(a, want) || i == 1 && !strings.Contains(a, "/elsewhere/dynamodb/") {
			t.Errorf("request %d is signed %q", i, a)
		}
		if want := len(u.got[i]) - len("BatchExecuteStatement "); r.ContentLength != int64(want) {
			t.Errorf("request %d has %d bytes, and says %d", i, want, r.ContentLength)
		}
	}
}
