package memory

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Sweep drops every row and archived delivery that is past its time. The ledger sweeps a few rows at each claim by
// itself; tests with a clock of their own call Sweep to see a window end.
func (l *Ledger) Sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.sweepSome(now, len(l.rows))
	l.sweepArchives(now, len(l.archives))
}

// sweepSome looks at n rows, beginning anywhere (Go's maps do that), and drops the expired ones. With two looks for each
// claimed row about half of the rows are alive at least, whatever the windows are.
func (l *Ledger) sweepSome(now time.Time, n int) {
	since := now.Sub(l.begin)
	if !l.some || since < l.first {
		return // nothing has ended yet
	}
	for sum, r := range l.rows {
		if n--; n < 0 {
			return
		}
		gone := r.expiry
		if r.state == ledger.Pending {
			gone += l.keep
		}
		if gone < since {
			delete(l.rows, sum)
		}
	}
}

func (l *Ledger) sweepArchives(now time.Time, n int) {
	for sum, list := range l.archives {
		if n--; n < 0 {
			return
		}
		kept := list[:0]
		for _, a := range list {
			if !a.Expiry.Before(now) {
				kept = append(kept, a)
			}
		}
		clear(list[len(kept):])
		if l.archives[sum] = kept; len(kept) == 0 {
			delete(l.archives, sum)
		}
	}
}
