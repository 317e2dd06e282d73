package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// What producers put into names moved the cursor of whoever listed them with --json, or turned the text around. JSON has the same
// texts, and nothing that cannot be printed.
func TestPitfall140_JSONOnATerminal(t *testing.T) {
	for _, want := range []string{"plain é 日本", "\u009b2J", "\u202eevil\u202c", "\u2066x\u2069", "\u200e\u200f\u061c", "\x7f", "\U000e0001", "\u2028", "a\tb\nc"} {
		var out bytes.Buffer
		if err := printJSON(&out, map[string]string{"id": want}); err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["id"] != want {
			t.Errorf("%q reads back as %q: %v", want, got["id"], err)
		}
		if strings.ContainsFunc(out.String(), unprintable) {
			t.Errorf("%q is printed as %q", want, out.String())
		}
	}
}

// Whatever a command prints, as text, as JSON or as an error, names move no cursor and turn nothing around: those in the ledger and
// those that it was given.
func TestNamesOnATerminal(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		const mark = "\u202eevil\u202c\u009b2J\u200f\u2066"
		const source = "arn:aws:sqs:eu-west-1:000000000000:orders" + mark
		id := "order " + mark
		for _, consumer := range []string{"shipping", "billing"} {
			scope := "sqs:" + source + "/" + consumer + mark
			dead := deadArchive(scope, id, ledger.KindTerminal, "no JSON "+mark)
			dead.Body, dead.Group, dead.Source, dead.Headers = []byte(mark), mark, source, []ledger.Header{{Name: mark, Value: []byte(mark), Type: mark}}
			s.settle([]ledger.Settlement{{Ticket: s.claim(scope, id)[0].Ticket, Kind: ledger.Fail, Dead: dead}})
		}
		s.run("maintain", "--once")
		for _, args := range [][]string{
			{"list"}, {"list", "--state", "failed"}, {"list", "--header", mark}, {"show", id, "--body"}, {"stats"}, {"doctor"}, {"purge", "--all"},
			{"replay", "--source", "archive", "--to", "source", "--region", "eu-west-1", "--endpoint-url", "http://127.0.0.1:1"},
		} {
			for _, form := range [][]string{nil, {"--json"}} {
				s.prints(slices.Concat(args, form))
			}
		}
		for _, wrong := range [][]string{
			{mark}, {"list", "--" + mark}, {"list", "--since", mark}, {"list", "--scope", mark}, {"show", "another " + mark},
			{"replay", "--source", "kafka:" + mark, "--to", "source", "--brokers", mark}, {"migrate", "--worker-role", mark, "--operator-role", mark},
		} {
			s.prints(wrong)
		}
		if r := ackledger(t, "list", "--ledger", filepath.Join(t.TempDir(), mark)); r.code == 0 || strings.ContainsFunc(r.errors, unprintable) {
			t.Errorf("%d: %q", r.code, r.errors)
		}
	})
}

// prints runs a command and looks at what it prints.
func (s *store) prints(args []string) {
	s.Helper()
	r := ackledger(s.T, append(args, "--ledger", s.name)...)
	if r.out+r.errors == "" || strings.ContainsFunc(r.out+r.errors, unprintable) {
		s.Errorf("%q prints %q and %q", args, r.out, r.errors)
	}
}

// The doctor says who may read a ledger in a file, and whether what it asks goes over the network in clear.
func TestDoctorOfFilesAndConnections(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	done(t, "migrate", "--ledger", path)
	wants(t, done(t, "doctor", "--ledger", path), "ok       files: only their owner")
	if err := os.Chmod(path+"-owners", 0o644); err != nil {
		t.Fatal(err)
	}
	wants(t, done(t, "doctor", "--ledger", path), "warning  files: other users may read or write "+path+"-owners (0644)", "chmod 600")
	link := filepath.Join(t.TempDir(), "link.db")
	for suffix, to := range map[string]string{"": path, "-owners": path + "-owners"} {
		if err := os.Symlink(to, link+suffix); err != nil {
			t.Fatal(err)
		}
	}
	openStore(t, path) // it has its -shm as long as it is open
	if err := os.Chmod(path+"-shm", 0o640); err != nil {
		t.Fatal(err)
	}
	wants(t, done(t, "doctor", "--ledger", link), path+"-shm (0640)", path+"-owners (0644)")
	onStores(t, func(t *testing.T, s *store) {
		if strings.HasPrefix(s.name, "postgres") {
			wants(t, ackledger(t, "doctor", "--ledger", s.name).out, "encryption: the ledger's connection is not encrypted, and does not leave this machine")
		}
	})
	var f findings
	(&brokers{seeds: []string{"127.0.0.1:9092", "kafka.example.com:9092"}}).visitTransport(&f)
	(&brokers{seeds: []string{"kafka.example.com:9092"}, ca: "file"}).visitTransport(&f)
	(&brokers{seeds: []string{"localhost:9092"}}).visitTransport(&f)
	if len(f) != 3 || f[0].Grade != warning || !strings.Contains(f[0].Text, "kafka.example.com") || f[1].Grade != good || f[2].Grade != good {
		t.Errorf("%+v", f)
	}
}
