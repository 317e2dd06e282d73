package postgres

import (
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// TestFreshAtOdds: an answer whose numbers are at odds was an error that claims to have changed nothing, although the insert
// was committed.
func TestFreshAtOdds(t *testing.T) {
	c := &claimCall{out: make([]ledger.Claim, 3), sums: make([][ledger.KeySize]byte, 3)}
	_, err := c.noteFresh([]int32{0, 1, 2}, 2, c.sums[:1])
	if !ledger.Unknown(err) {
		t.Errorf("two of three messages written, one named: %v", err)
	}
}
