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

// needed says that the message has not succeeded, though a range or segment says so when its row is gone: the row stays as
// long as that is there, whatever has expired.
func (l *Ledger) needed(sum [ledger.KeySize]byte, r *row) bool {
	return r.state != ledger.Succeeded && l.spokenFor(sum, r)
}

// strip makes a failed row small that is kept for its state alone: nothing of its deliveries is archived any more.
func (l *Ledger) strip(sum [ledger.KeySize]byte, r *row) {
	if r.state != ledger.Failed || len(l.archives[sum]) > 0 {
		return
	}
	if rest := l.rows.rest(r); rest.generation > 0 {
		*l.rows.extra(r) = extra{generation: rest.generation}
		return
	}
	l.rows.plain(r)
}

// spokenFor says that a range or segment has the message, too.
func (l *Ledger) spokenFor(sum [ledger.KeySize]byte, r *row) bool {
	if !r.covered {
		return false
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
