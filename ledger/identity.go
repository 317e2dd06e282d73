package ledger

import "context"

// Identified is a ledger that can be told from every other one, so that a worker of another ledger can be refused.
// PostgreSQL and SQLite are. Memory is not: each start of its process would be another ledger.
type Identified interface {
	// ID is made once, with the ledger, and is the same for all who reach it, from wherever: 1 to 64 bytes of letters,
	// digits, "-" and "_". A copy, such as a restored backup, has the id of its original. Empty: the tables are older than ids.
	// Its errors are those of [Ledger.Join]. It may be called concurrently.
	ID(ctx context.Context) (string, error)
}
