package checks

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// ID refuses an id that no message has.
func ID(id []byte) error {
	if len(id) == 0 || len(id) > ledger.MaxID {
		return length("id", 1, ledger.MaxID, len(id))
	}
	return nil
}

// Keys refuses more keys or records than one call takes.
func Keys(field string, n int) error {
	if n > ledger.MaxStatus {
		return &ledger.InvalidError{Field: field, Bound: fmt.Sprintf("at most %d", ledger.MaxStatus), Value: fmt.Sprint(n)}
	}
	return nil
}

// Successes refuses too many keys.
func Successes(keys []ledger.Key) error {
	if len(keys) > ledger.MaxSuccesses {
		return &ledger.InvalidError{Field: "keys", Bound: fmt.Sprintf("at most %d", ledger.MaxSuccesses), Value: fmt.Sprint(len(keys))}
	}
	return nil
}

// Deliveries refuses counts that no store can hold.
func Deliveries(counts []ledger.Deliveries) error {
	for i := range counts {
		if n := len(counts[i].Scope); n == 0 || n > ledger.MaxScope {
			return length("Deliveries.Scope", 1, ledger.MaxScope, n)
		}
	}
	return nil
}

// Past refuses what KeepPast of a [ledger.PastKeeper] does not take.
func Past(scope string, keep time.Duration) error {
	switch {
	case len(scope) > ledger.MaxScope:
		return &ledger.InvalidError{Field: "scope", Bound: fmt.Sprintf("at most %d bytes", ledger.MaxScope), Value: fmt.Sprintf("%d bytes", len(scope))}
	case keep != 0 && (keep < time.Second || keep > ledger.MaxWindow):
		return &ledger.InvalidError{Field: "keep", Bound: fmt.Sprintf("0, or 1s to %s", ledger.MaxWindow), Value: keep.String()}
	}
	return nil
}

func length(field string, low, high, got int) error {
	return &ledger.InvalidError{Field: field, Bound: fmt.Sprintf("%d to %d bytes", low, high), Value: fmt.Sprintf("%d bytes", got)}
}

func duration(field string, got time.Duration) error {
	return &ledger.InvalidError{Field: field, Bound: fmt.Sprintf("above 0, at most %s", ledger.MaxWindow), Value: got.String()}
}
