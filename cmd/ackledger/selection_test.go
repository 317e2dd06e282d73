package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// A script's variable that is not set selects nothing, rather than all.
func TestEmptySelectionsAreRefused(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "ledger.db"))
	s.fail(orders, ledger.KindExhausted, "no such SKU", "o1", "o2")
	s.fail(payments, ledger.KindExhausted, "no such SKU", "p1")
	for _, flag := range []string{"--scope", "--error", "--key", "--id", "--kind", "--since", "--until", "--header", "--offsets", "--state"} {
		r := ackledger(t, "purge", "--ledger", s.name, flag, "", "--yes")
		if r.code != exitUsage || r.out != "" || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("purge %s \"\" --yes: code %d, %s%s", flag, r.code, r.out, r.errors)
		}
	}
	r := ackledger(t, "replay", "--ledger", s.name, "--source", "archive", "--to", "source", "--id", "o1", "--body-file", "")
	if r.code != exitUsage || !strings.Contains(r.errors, "--body-file") {
		t.Errorf("replay --body-file \"\": code %d, %s%s", r.code, r.out, r.errors)
	}
	if got := s.listed(); len(got) != 3 {
		t.Errorf("left: %v", got)
	}
}

// The difference is to the body that failed, not to that of a mismatch which came later.
func TestMendShowsTheBodyThatFailed(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		s.fail(testScope, ledger.KindTerminal, "cannot parse", "o1")
		stranger := []byte("of somebody else")
		claims, err := s.owner.Claim(t.Context(), []ledger.Entry{{Key: ledger.Key{Scope: testScope, ID: []byte("o1")}, Delivery: []byte("later"),
			Window: time.Hour, Fingerprint: ledger.BodyFingerprint(stranger)}})
		if err != nil || claims[0].Answer != ledger.Mismatch {
			t.Fatalf("%+v, %v", claims, err)
		}
		dead := deadArchive(testScope, "o1", ledger.KindMismatch, "another body")
		dead.Body, dead.Fingerprint, dead.Delivery = stranger, ledger.BodyFingerprint(stranger), []byte("later")
		s.settle([]ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: dead}})
		file := filepath.Join(t.TempDir(), "mended")
		if err := os.WriteFile(file, []byte("mended"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := s.replay("--source", "archive", "--to", "source", "--id", "o1", "--body-file", file)
		if !strings.Contains(r.out, "-"+secret) || strings.Contains(r.out, "somebody else") {
			t.Errorf("code %d, %s%s", r.code, r.out, r.errors)
		}
	})
}
