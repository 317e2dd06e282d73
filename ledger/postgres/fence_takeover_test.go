package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// A fence that comes just while another owner, or its own, takes its message over.
func TestLateFenceBesideATakeOver(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		for _, how := range []string{"dead", "left", "own", "own release", "own release uncounted", "sibling"} {
			t.Run(fmt.Sprint(level, " ", how), func(t *testing.T) {
				l := newLossy(t, variant{mode: pgx.QueryExecModeExec, log: true, cfg: &postgres.Config{Isolation: level}})
				for n := range 2 {
					all := records("scope", 1+n, 7, 3)
					claims := claimsOf(t, l.owner, all, ledger.Run)
					l.entry, l.claim = all[1], claims[1]
					l.exec(t, "TRUNCATE effects")
					deliver := l.cut.delay()
					a, err := l.attempt(t)
					abort(t, a, err, true)
					owner := l.owner
					if how == "dead" || how == "left" {
						owner = join(t, l.bench, time.Minute)
					}
					switch how {
					case "dead":
						declareDead(t, l.bench, l.owner)
					case "left":
						if err := l.owner.Leave(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					go func() {
						time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond)
						deliver()
					}()
					time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
					switch how {
					case "own release", "own release uncounted":
						_, _ = owner.Settle(t.Context(), []ledger.Settlement{{Ticket: l.claim.Ticket, Kind: ledger.Release, Count: how == "own release"}})
					case "sibling":
						_, _ = owner.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[2].Ticket, Kind: ledger.Release, Count: true}})
					}
					var c ledger.Claim
					poll(t, "an answer", func() bool {
						got, err := owner.Claim(t.Context(), []ledger.Entry{l.entry})
						if err != nil {
							t.Log(err)
							return false
						}
						c = got[0]
						return c.Answer == ledger.Run || c.Answer == ledger.Done
					})
					l.owner = owner
					if c.Answer == ledger.Run {
						l.claim = c
						if _, err := l.attempt(t); err != nil {
							t.Errorf("the next attempt: %v", err)
						}
					}
					poll(t, "what was late", func() bool { return l.transactions(t) == 0 })
					t.Logf("%s: %v, %d effects", how, c.Answer, l.effects(t))
					if n := l.effects(t); n != 1 {
						t.Errorf("%d effects", n)
					}
					claimOne(t, owner, l.entry, ledger.Done)
				}
			})
		}
	}
}
