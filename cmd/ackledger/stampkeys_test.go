package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The keys of stamps come from a file or the environment, and are shown nowhere.
func TestStampKeysSettings(t *testing.T) {
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "ledger.db"), strings.Repeat("A", 43)+"="
	done(t, "migrate", "--ledger", file)
	for name, text := range map[string]string{"good": "next:" + secret + "\nold:" + secret + "\n", "short": "next:c2hvcnQ=", "none": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file, variable string
		code           int
		text           string
	}{
		{"", "", exitFailed, "ask for metadata"},
		{"good", "", exitFailed, "ask for metadata"},
		{"", "next:" + secret, exitFailed, "ask for metadata"},
		{"good", "what the file goes before", exitFailed, "ask for metadata"},
		{"absent", "", exitUsage, "--stamp-keys-file: "},
		{"short", "", exitUsage, `--stamp-keys-file: consumer: stamp keys: key "next": its secret must be 32 to 1024 bytes, is 5 bytes`},
		{"none", "", exitUsage, "--stamp-keys-file: consumer: stamp keys: must be at least 1, are 0"},
		{"", secret, exitUsage, stampKeysVariable + ": consumer: stamp keys: key 1 must be id:secret, has no colon"},
	} {
		t.Setenv(stampKeysVariable, c.variable)
		args := []string{"replay", "--source", "archive", "--to", "source", "--ledger", file, "--brokers", "127.0.0.1:1"}
		if c.file != "" {
			args = append(args, "--stamp-keys-file", filepath.Join(dir, c.file))
		}
		r := ackledger(t, args...)
		if r.code != c.code || !strings.Contains(r.errors, c.text) || strings.Contains(r.out+r.errors, secret) {
			t.Errorf("%+v: code %d, %s%s", c, r.code, r.out, r.errors)
		}
	}
}
