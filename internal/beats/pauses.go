package beats

import (
	"slices"
	"strings"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

// AddPause adds a pause to those that hold, which are sorted by scope, or renews who says so. It returns a new slice.
func AddPause(hold []ledger.Pause, p ledger.Pause) ([]ledger.Pause, error) {
	at, there := slices.BinarySearchFunc(hold, p.Scope, func(o ledger.Pause, scope string) int { return strings.Compare(o.Scope, scope) })
	if there {
		hold = slices.Clone(hold)
		hold[at].By = p.By
		return hold, nil
	}
	if err := checks.Pauses(len(hold)); err != nil {
		return nil, err
	}
	return slices.Insert(slices.Clone(hold), at, p), nil
}
