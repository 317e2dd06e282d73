package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// many is how many dead letters there are, and how large each is: 100 MiB of bodies in any case.
func many() (letters, bytes int) {
	if os.Getenv("ACKLEDGER_LONG") != "" {
		return 100_000, 1 << 10
	}
	return 10_000, 10 << 10
}

// TestManyDeadLetters: with many archived dead letters lists are there, and a dry run streams: it holds a part of them in
// memory. All their bodies are 100 MiB, and what Go makes of them several times as much. ACKLEDGER_LONG=1 makes 100,000.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		manyLetters, manyBytes := many()
		s.fill(manyLetters, manyBytes)
		for _, args := range []string{"list", "list --scope orders --kind exhausted", "list --state failed --json --count 100", "list --id o009999", "show o005000"} {
			began := time.Now()
			out := s.run(strings.Fields(args)...)
			if !strings.Contains(out, "o0") {
				t.Errorf("%s:\n%.300s", args, out)
			}
			t.Logf("%s took %s", args, time.Since(began))
		}
		out, memory := s.measured("list", "--json")
		if n := strings.Count(out, "\n"); n != manyLetters || memory > 256<<20 {
			t.Errorf("list --json: %d lines, %s of memory", n, size(memory))
		}
		out, memory = s.measured("replay", "--source", "archive", "--to", "source", "--json")
		if !strings.Contains(out, fmt.Sprintf(`"read":%d,"replayed":%d`, manyLetters, manyLetters)) || memory > 256<<20 {
			t.Errorf("a dry run: %s of memory, %.500s", size(memory), out)
		}
		t.Logf("a dry run takes %s of memory", size(memory))
		if s.srv.Queue("orders").Depth() != 0 {
			t.Error("a dry run sent something")
		}
	})
}

// fill makes the dead letters.
func (s *site) fill(manyLetters, manyBytes int) {
	s.Helper()
	const batch = 1000
	body := bytes.Repeat([]byte("x"), manyBytes)
	print := ledger.BodyFingerprint(body)
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute) // not the ledger's own ten seconds
	defer cancel()
	for first := 0; first < manyLetters; first += batch {
		entries := make([]ledger.Entry, batch)
		for i := range entries {
			id := fmt.Appendf(nil, "o%06d", first+i)
			entries[i] = ledger.Entry{Key: ledger.Key{Scope: testScope, ID: id}, Delivery: id, Window: time.Hour, Fingerprint: print}
		}
		claims, err := s.owner.Claim(ctx, entries)
		if err != nil {
			s.Fatal(err)
		}
		list := make([]ledger.Settlement, batch)
		for i, c := range claims {
			a := deadArchive(testScope, string(entries[i].Key.ID), ledger.KindExhausted, "no such SKU")
			a.Body, a.Fingerprint, a.Group = body, print, ""
			list[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Dead: a}
		}
		errs, err := s.owner.Settle(ctx, list)
		if err := errors.Join(append(errs, err)...); err != nil {
			s.Fatal(err)
		}
	}
}

// measured runs the command, and says how much memory it took at most, in bytes.
func (s *site) measured(args ...string) (string, int64) {
	s.Helper()
	path, err := program()
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(s.Context(), path, append(args, "--ledger", s.name)...)
	cmd.Env = append(append(cmd.Environ(), awsEnv(s.srv)...), "GOMEMLIMIT=64MiB") // else it leaves garbage lie, as there is room
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	memory, err := runMeasured(s.T, cmd)
	if err != nil || memory == 0 {
		s.Fatalf("%v: %d bytes of memory, %v, %s", args, memory, err, errs.String())
	}
	return out.String(), memory
}
