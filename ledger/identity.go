package ledger

import "context"

// MaxLedgerID is the longest id of a ledger, in bytes.
const MaxLedgerID = 64

// Identified is a ledger that can be told from every other one, so that a worker of another ledger can be refused.
// PostgreSQL and SQLite are. Memory is not: each start of its process would be another ledger.
type Identified interface {
	// ID is made once, with the ledger, and is the same for all who reach it, from wherever: 1 to MaxLedgerID bytes of
	// letters, digits, "-" and "_" ([IsLedgerID]). A copy, such as a restored backup, has the id of its original. Empty: the
	// tables are older than ids. Its errors are those of [Ledger.Join]. It may be called concurrently.
	ID(ctx context.Context) (string, error)
}

// IsLedgerID says whether a text can be the id of a ledger.
func IsLedgerID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return s != "" && len(s) <= MaxLedgerID
}
