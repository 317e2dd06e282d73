package engine

import "github.com/ackledger/ackledger/ledger"

// dedup counts what became of deliveries, as far as it says how many of them are duplicates: each delivery counts once at most,
// unless it was given back without a trace. Attempts after the first, be they retries or take-overs, are neither new nor
// duplicates.
type dedup struct {
	misses   int64 // first claims
	returned int64 // of these, given back without a trace: the next claim is a first one again
	hits     int64 // finished before this delivery was claimed
	timeouts int64 // given back to the broker while a live owner had the message
}

// add counts the ledger's answer to an item, and notes in the item what later ones go by. An answer that was lost counts with
// the one that follows it.
func (d *dedup) add(it *Item, c *ledger.Claim) {
	switch c.Answer {
	case ledger.Run:
		if c.First && !it.met {
			d.misses++
		}
		it.met = true
	case ledger.Done:
		if !it.met {
			d.hits++
		}
	}
	it.ranged = c.Ranged
	it.behind = c.Held || it.behind && unexplained(c)
}
