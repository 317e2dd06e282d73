package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// mirror is a cipher that anybody can read.
type mirror struct{}

func (mirror) Seal(_ context.Context, plain []byte) ([]byte, error) {
	out := slices.Clone(plain)
	slices.Reverse(out)
	return out, nil
}

func (m mirror) Open(ctx context.Context, sealed []byte) ([]byte, error) { return m.Seal(ctx, sealed) }

// What the workers' cipher has sealed is listed and shown for what it is; a replay of it says that it cannot open it and
// what can, and changes nothing.
func TestSealed(t *testing.T) {
	t.Parallel()
	onSites(t, func(t *testing.T, s *site) {
		claims := s.claim(testScope, "o1")
		dead := deadArchive(testScope, "o1", ledger.KindTerminal, "cannot parse")
		if err := dead.Seal(t.Context(), mirror{}); err != nil {
			t.Fatal(err)
		}
		s.settle([]ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Fail, Dead: dead}})
		if out := s.run("show", "o1"); !strings.Contains(out, "sealed by the workers' cipher") {
			t.Errorf("show:\n%s", out)
		}
		for _, args := range [][]string{{}, {"--yes", "--actor", "eve", "--reason", "JIRA-8"}} {
			r := s.replay(append([]string{"--source", "archive", "--to", "source"}, args...)...)
			if !strings.Contains(r.out, "1 dead letters are sealed by the workers' cipher, which this command does not have") || s.srv.Queue("orders").Depth() != 0 {
				t.Errorf("replay %v: code %d, %s%s", args, r.code, r.out, r.errors)
			}
		}
		if one := jsonLines[shown](t, s.run("show", "o1", "--json")); len(one) != 1 || one[0].State != "failed" || len(one[0].Audit) != 0 {
			t.Errorf("%+v", one)
		}
	})
}
