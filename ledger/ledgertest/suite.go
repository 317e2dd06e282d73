package ledgertest

import "testing"

// Run is the conformance suite: every row of the claim table, every settle rule, owners, and races. Each case calls
// open.
func Run(t *testing.T, open Open) {
	for _, c := range leaseCases {
		t.Run(c.name, func(t *testing.T) { c.run(begin(t, open)) })
	}
	for _, cases := range [][]testCase{claimCases, settleCases, ownerCases, raceCases} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(begin(t, open))
			})
		}
	}
	t.Run("ClaimRow02_LockedRow", func(t *testing.T) {
		t.Parallel()
		e := begin(t, open)
		if e.Lock == nil {
			t.Log("one lock for the whole store: a row is never locked alone, and is never unseen")
			claimOneLock(e)
			return
		}
		claimLocked(e)
		settleLocked(begin(t, open))
	})
}
