package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
)

// TestPitfall191_ReopenBehindADeadOwner: ranges that InTx has finished stay open until many of a log are, or until a beat. Whatever
// becomes of their owner meanwhile, their messages are done for everybody, and can be reopened once the owner has no say. Of a
// dead owner they could not for an hour.
func TestPitfall191_ReopenBehindADeadOwner(t *testing.T) {
	t.Parallel()
	for how, opens := range map[string]bool{"live": false, "dead": true, "left": true, "beat": true} {
		t.Run(how, func(t *testing.T) {
			const n = 15
			l := newLossy(t, variant{mode: pgx.QueryExecModeExec, log: true})
			all := records("scope", 5, 7, n+1)
			for _, e := range all[:n] {
				l.claim = claimOne(t, l.owner, e, ledger.Run)
				if _, err := l.attempt(t); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			switch how {
			case "dead":
				declareDead(t, l.bench, l.owner)
			case "left":
				err = l.owner.Leave(t.Context())
			case "beat":
				_, err = l.owner.Beat(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			other := join(t, l.bench, time.Minute)
			claimsOf(t, other, all[:n], ledger.Done)
			last := claimOne(t, other, all[n], ledger.Run)
			if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
				t.Fatal(err)
			}
			r, err := l.Reopen(t.Context(), ledger.ReopenRequest{
				Filter: ledger.Filter{Scope: "scope", IDs: [][]byte{all[1].Key.ID, all[4].Key.ID}}, By: ledger.By{Actor: "a"},
			})
			if err != nil || r.Matched != 2 || (r.Reopened == 2) != opens || r.Reopened+r.Skipped != 2 {
				t.Errorf("reopened: %+v, %v", r, err)
			}
			for _, i := range []int{1, 4} {
				want := ledger.Done
				if opens {
					want = ledger.Run
				}
				if c := claimOne(t, other, all[i], want); opens && (c.Token <= l.claim.Token || c.Crashes != 0) {
					t.Errorf("record %d: %+v after token %d", i, c, l.claim.Token)
				}
			}
			claimsOf(t, other, []ledger.Entry{all[0], all[2], all[3], all[10]}, ledger.Done)
			succeedAll(t, other, []ledger.Claim{last})
			if got := l.effects(t); got != n {
				t.Errorf("%d effects", got)
			}
		})
	}
}
