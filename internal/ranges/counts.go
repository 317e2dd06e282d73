package ranges

import (
	"sync/atomic"

	"github.com/ackledger/ackledger/ledger"
)

// Counts counts the answers of all owners of a ledger value. The zero value is ready; it is safe for concurrent use.
type Counts struct{ decided, first, duplicates atomic.Int64 }

// Answered returns what was counted so far.
func (c *Counts) Answered() ledger.Answered {
	first, duplicates := c.first.Load(), c.duplicates.Load() // first: they are never more than what was decided
	return ledger.Answered{Decided: c.decided.Load(), First: first, Duplicates: duplicates}
}

func (c *Counts) add(claims []ledger.Claim) {
	var decided, first, duplicates int64
	for i := range claims {
		switch claims[i].Answer {
		case ledger.Busy:
			continue
		case ledger.Done:
			duplicates++
		}
		if claims[i].First {
			first++
		}
		decided++
	}
	c.decided.Add(decided)
	c.first.Add(first)
	c.duplicates.Add(duplicates)
}

// opened counts messages of a stretch that was claimed: all of them for the first time.
func (c *Counts) opened(messages int64) {
	c.decided.Add(messages)
	c.first.Add(messages)
}

// back counts messages that are given back to be as if never claimed; what was counted so is taken back with less than zero.
func (c *Counts) back(messages int64) { c.first.Add(-messages) }
