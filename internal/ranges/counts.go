package ranges

import (
	"sync/atomic"

	"github.com/ackledger/ackledger/ledger"
)

// Counts counts the answers of all owners of a ledger value. The zero value is ready; it is safe for concurrent use.
type Counts struct{ decided, duplicates atomic.Int64 }

// Answered returns what was counted so far.
func (c *Counts) Answered() ledger.Answered {
	duplicates := c.duplicates.Load() // first: it is never more than what was decided
	return ledger.Answered{Decided: c.decided.Load(), Duplicates: duplicates}
}

func (c *Counts) add(claims []ledger.Claim) {
	var decided, duplicates int64
	for i := range claims {
		switch claims[i].Answer {
		case ledger.Busy:
			continue
		case ledger.Done:
			duplicates++
		}
		decided++
	}
	c.decided.Add(decided)
	c.duplicates.Add(duplicates)
}
