package memory

import (
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// sweepSome looks at n rows, beginning anywhere (Go's maps do that), and drops the expired ones. With two looks for each
// claimed row about half of the rows are alive at least, whatever the windows are.
func (l *Ledger) sweepSome(now time.Time, n int) {
	since := now.Sub(l.begin)
	if !l.some || since < l.first {
		return // nothing has ended yet
	}
	for sum, at := range l.rows.at {
		if n--; n < 0 {
			return
		}
		if r := l.rows.row(at); r.gone(l.keep) < since && !l.rows.held(r) && !l.needed(sum, r) {
			l.rows.remove(sum)
		}
	}
}

// gone is when the row goes: at its expiry, and if it is pending only after keep and its own window again.
func (r *row) gone(keep time.Duration) time.Duration {
	if r.state == ledger.Pending {
		return r.expiry + max(keep, r.expiry-r.at)
	}
	return r.expiry
}

// needed says that a range speaks for the message when its row is gone, and would swallow it, though there may be a copy to
// run: of a failed one as long as it is archived, of a pending one as long as the range is there.
func (l *Ledger) needed(sum [ledger.KeySize]byte, r *row) bool {
	if !r.covered || r.state == ledger.Succeeded {
		return false
	}
	if r.state == ledger.Failed {
		return len(l.archives[sum]) > 0
	}
	log, offset := ranges.SplitSum(sum)
	var rec ledger.Record
	return l.find(log, offset, &rec)
}

// held says that a live owner has the message in hand.
func (t *rows) held(r *row) bool {
	o := t.ownerOf(r)
	return r.state == ledger.Pending && o != nil && o.fate == live
}

// sweepArchives looks at the archives of n messages, and returns how many deliveries it dropped.
func (l *Ledger) sweepArchives(now time.Time, n int) (dropped int64) {
	for sum, list := range l.archives {
		if n--; n < 0 {
			break
		}
		kept := list[:0]
		for _, a := range list {
			if !a.Expiry.Before(now) {
				kept = append(kept, a)
			}
		}
		dropped += int64(len(list) - len(kept))
		clear(list[len(kept):])
		if l.archives[sum] = kept; len(kept) == 0 {
			delete(l.archives, sum)
		}
	}
	return dropped
}
