package sim

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// fast is how many times faster the ledger's clock runs in a world with Config.Hours: what the ledger does after ten minutes or hours (rows
// go for which a range speaks, owners rest before they are forgotten) happens after seconds. Whatever a worker tells the ledger of times
// is told in the ledger's, and what that answers is taken back.
const fast = 100

// hours is a time of the world in the ledger's.
func (w *world) hours(d time.Duration) time.Duration {
	if w.cfg.Hours {
		return d * fast
	}
	return d
}

// seconds is a time of the ledger in the world's.
func (w *world) seconds(d time.Duration) time.Duration {
	if w.cfg.Hours {
		return d / fast
	}
	return d
}

// inHours are settlements as the ledger is told them.
func (w *world) inHours(all []ledger.Settlement) []ledger.Settlement {
	all = slices.Clone(all)
	for i := range all {
		all[i].After = w.hours(all[i].After)
	}
	return all
}

// amid has something else happen between two transactions of a sweep, now and then.
func (w *world) amid() {
	if w.cfg.Hours && len(w.queue) > 0 && w.rnd.IntN(3) == 0 {
		w.disturbed = true
		w.step()
	}
}
