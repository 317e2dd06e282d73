package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// TestFreshAtOdds: an answer whose numbers are at odds was an error that claims to have changed nothing, although the insert
// was committed.
func TestFreshAtOdds(t *testing.T) {
	t.Parallel()
	c := &claimCall{out: make([]ledger.Claim, 3), sums: make([][ledger.KeySize]byte, 3)}
	_, err := c.noteFresh([]int32{0, 1, 2}, 2, c.sums[:1])
	if !ledger.Unknown(err) {
		t.Errorf("two of three messages written, one named: %v", err)
	}
}

// TestClaimAtOdds: a claim whose numbers are at odds is an error, and neither a lost owner nor a late statement; what is late
// is said to be.
func TestClaimAtOdds(t *testing.T) {
	t.Parallel()
	err := claimState{answered: true, live: true, inTime: true, written: 1, taken: 2}.check(&owner{})
	if err == nil || ledger.IsLost(err) || errors.Is(err, errLate) {
		t.Errorf("two messages taken, one written: %v", err)
	}
	if err := (claimState{answered: true, live: true}).check(&owner{}); !errors.Is(err, errLate) {
		t.Errorf("late: %v", err)
	}
}

// TestFreshArgsOfManyScopes: each entry with another scope or window than the first made a slice as long as the batch.
func TestFreshArgsOfManyScopes(t *testing.T) {
	const n = 1000
	of := func(scopes ...string) *claimCall {
		c := &claimCall{owner: &owner{}, sums: make([][ledger.KeySize]byte, n), scopes: map[string]int32{"a": 1, "b": 2}}
		for i := range n {
			at := i % len(scopes)
			c.entries = append(c.entries, ledger.Entry{Key: ledger.Key{Scope: scopes[at]}, Window: time.Duration(1+at) * time.Hour})
		}
		return c
	}
	part := make([]int32, n)
	for i := range part {
		part[i] = int32(i)
	}
	allocs := func(c *claimCall) float64 { return testing.AllocsPerRun(3, func() { c.freshArgs(part) }) }
	one, two := allocs(of("a")), allocs(of("a", "b"))
	if two > one+10 {
		t.Errorf("%.0f allocations for one scope and window, %.0f for two", one, two)
	}
	args := of("a", "b").freshArgs(part)
	scopes, windows := args[8].([]int32), args[9].([]int64)
	for i := range n {
		if want := int32(1 + i%2); scopes[i] != want || windows[i] != int64(want)*time.Hour.Microseconds() {
			t.Fatalf("entry %d: scope %d, window %d", i, scopes[i], windows[i])
		}
	}
}
