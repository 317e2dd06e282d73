package main

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/dynamodb"
	"github.com/ackledger/ackledger/ledger/dynamodb/dynamodbtest"
)

// inTable is a ledger in a table of the tests' server, with the environment in which the command finds it. On the way to the server
// its dialect is spoken.
func inTable(t *testing.T) (s *store, environment []string) {
	t.Helper()
	endpoint, name := services.DynamoDB(t), services.Name(t)
	if endpoint != dynamodbtest.AWS {
		way, err := dynamodbtest.New(dynamodbtest.Options{JoinSets: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(way.Close)
		to, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: way, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
		t.Cleanup(proxy.Close)
		endpoint = proxy.URL
		environment = []string{"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1", "AWS_ENDPOINT_URL_DYNAMODB=" + endpoint,
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"}
	}
	client, err := dynamodbtest.Connect(t.Context(), endpoint)
	if err == nil {
		err = dynamodb.Migrate(t.Context(), client, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.WithoutCancel(t.Context()), &sdk.DeleteTableInput{TableName: aws.String(name)}); err != nil {
			t.Error(err)
		}
	})
	return newStore(t, dynamoPrefix+name, dynamodb.New(client, name, nil)), environment
}

// Every command that people use on a ledger, on one in DynamoDB.
func TestATableOfDynamoDB(t *testing.T) {
	t.Parallel()
	s, environment := inTable(t)
	shop(s)
	run := func(want int, args ...string) string {
		t.Helper()
		cmd := command(t, append(args, "--ledger", s.name)...)
		cmd.Env = append(cmd.Env, environment...)
		r := finish(t, cmd)
		if r.code != want {
			t.Fatalf("ackledger %v: code %d, %s%s", args, r.code, r.errors, r.out)
		}
		return r.out
	}
	says(t, run(exitDone, "list"), "o1", "o3", "p1")
	says(t, run(exitDone, "list", "--state", "succeeded"), "o4", "o5")
	says(t, run(exitDone, "show", "o1"), "no such SKU: 17", "failed")
	run(exitDone, "maintain", "--once")
	says(t, run(exitDone, "stats"), orders, payments)
	says(t, run(exitDone, "doctor"), "ok       tables: the table "+strings.TrimPrefix(s.name, dynamoPrefix)+" of DynamoDB is ACTIVE", "ok       ttl: ", "ok       sweep: ")
	says(t, run(exitDone, "pause", "--scope", orders, "--reason", "the bank is away"), orders)
	says(t, run(exitDone, "workers"), "the bank is away")
	says(t, run(exitDone, "resume", "--scope", orders))
	says(t, run(exitDone, "reopen", "--scope", orders, "--id", "o4", "--yes"), "1")
	says(t, run(exitDone, "show", "o4"), "pending")
	says(t, run(exitDone, "purge", "--scope", orders, "--id", "o3", "--yes"), "1")
	if out := run(exitDone, "list"); strings.Contains(out, "o3") {
		t.Errorf("o3 was purged:\n%s", out)
	}
}

// Each command that opens a ledger finds one in DynamoDB by the same flags, without the environment. Those of SQS are others.
func TestFlagsOfATable(t *testing.T) {
	t.Parallel()
	s, environment := inTable(t)
	shop(s)
	var region, endpoint string
	keep := environment[:0:0]
	for _, e := range environment {
		switch name, value, _ := strings.Cut(e, "="); name {
		case "AWS_REGION":
			region = value
		case "AWS_ENDPOINT_URL_DYNAMODB":
			endpoint = value
		default:
			keep = append(keep, e)
		}
	}
	if endpoint == "" {
		t.Skip("the tests' tables are on AWS, where no flag names the endpoint")
	}
	for _, args := range [][]string{
		{"list"}, {"show", "o1"}, {"stats"}, {"workers"}, {"doctor"}, {"migrate"}, {"maintain", "--once"},
		{"pause", "--scope", orders, "--reason", "the bank is away"}, {"resume", "--scope", orders},
		{"reopen", "--scope", orders, "--id", "o4"}, {"purge", "--scope", orders, "--id", "o3"},
		{"replay", "--source", "archive", "--to", "source", "--region", "eu-west-1", "--endpoint-url", "http://127.0.0.1:1", "--error", "no such text"},
	} {
		cmd := command(t, append(args, "--ledger", s.name, "--ledger-region", region, "--ledger-endpoint-url", endpoint)...)
		cmd.Env = append(cmd.Env, keep...)
		if r := finish(t, cmd); r.code != exitDone {
			t.Errorf("ackledger %v: code %d, %s%s", args, r.code, r.errors, r.out)
		}
	}
}

func says(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestDoctorOfTables(t *testing.T) {
	t.Parallel()
	off, on := false, true
	for name, c := range map[string]struct {
		setup dynamodb.Setup
		want  []string
	}{
		"well": {dynamodb.Setup{Status: "ACTIVE", OnDemand: true, TTL: true, Recovery: &on, Protected: true},
			[]string{"ok tables", "ok capacity", "ok ttl", "ok recovery"}},
		"ill": {dynamodb.Setup{Status: "UPDATING", Indexes: map[string]string{"dead": "CREATING", "by-id": "ACTIVE"}, Recovery: &off},
			[]string{"problem tables", "note capacity", "warning ttl", "warning recovery", "note protection"}},
		"not told": {dynamodb.Setup{Status: "ACTIVE", OnDemand: true, TTL: true, Protected: true}, []string{"ok tables", "ok capacity", "ok ttl", "note recovery"}},
	} {
		var f findings
		gradeTable("t", &c.setup, &f)
		var got []string
		for _, x := range f {
			got = append(got, string(x.Grade)+" "+x.Check)
		}
		if strings.Join(got, ", ") != strings.Join(c.want, ", ") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if name == "ill" && !strings.Contains(f[0].Text, "its index dead CREATING") {
			t.Errorf("%s", f[0].Text)
		}
	}
}
