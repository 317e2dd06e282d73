package ledger

import "context"

// MaxSuccesses is how many keys one call of [SuccessReader] takes: their results are in memory at once.
const MaxSuccesses = 100

// SuccessReader is a ledger that says which messages have succeeded, without a claim. The stores of this module are. A claim of what has
// succeeded locks its row, and so costs a database a commit; a read costs none.
type SuccessReader interface {
	// Successes returns one [Success] a key, in their order; at most [MaxSuccesses] keys, else an [*InvalidError]. It reads message rows
	// alone: what a range holds has not succeeded for it. A success is as durable as a settlement by then: who is told of it may act on
	// it. It may be called by any number of processes and goroutines.
	Successes(ctx context.Context, keys []Key) ([]Success, error)
}

// Success is what is known of a message that has succeeded. The zero value: it has not, or nothing is known of it.
type Success struct {
	Succeeded   bool
	Fingerprint Fingerprint // zero: it was claimed without one, and agrees with all
	Result      []byte      // nil is not empty
}

// Of says whether it is the success of a message with this fingerprint: what a claim answers with Done, and not with Mismatch.
func (s *Success) Of(f Fingerprint) bool {
	return s.Succeeded && (s.Fingerprint.IsZero() || s.Fingerprint.Agrees(f))
}
