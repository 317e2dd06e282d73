package replay

import (
	"context"
	"errors"

	"github.com/ackledger/ackledger/ledger"
)

var (
	// ErrStopped says that a run ended before the end of what was there: cancelled, or after too many errors. Nothing is
	// between two places; the same call goes on with the rest. The report is valid.
	ErrStopped = errors.New("replay: stopped before the end; run it again to go on")
	// ErrElsewhere says that a letter is of another source than the target sends to.
	ErrElsewhere = errors.New("replay: it came from another source than the target's")
)

// Run replays what src has now to dst, under the rules of the package, and reports. op is the ledger of the workers that
// failed. It blocks.
//
// The report is valid beside any error. An error for which errors.Is([ErrStopped]) holds says that the run was stopped: by
// ctx, between two messages (what is under way is finished, for at most some seconds), or by Config.StopAfter. Any other
// says that it could not begin, with nothing changed, or that the ledger or the source failed on the way; then too the same
// call goes on with the rest. What was left, refused or mismatched is no error: see [Report.Complete].
//
// Memory is bounded, whatever the number of dead letters: some hundred letters, and 64 MiB of bodies or one letter.
func Run(ctx context.Context, op ledger.Operator, src Source, dst Target, c Config) (Report, error) {
	return Report{}, errors.New("replay: not built yet")
}
