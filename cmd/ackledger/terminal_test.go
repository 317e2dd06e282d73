package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
