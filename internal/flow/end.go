package flow

import "time"

// End ends an event: it turns what must not stay ours into releases, and returns what is to be carried out, which is valid
// until the next event. What is recalled is to be reported with Recalled at once. Then Reset is called, and End again if
// something was recalled.
func (f *Flow) End() *Commands {
	if f.tripped {
		f.tripped = false
		f.releaseClaimed()
	}
	for _, it := range f.s.declined {
		if it.phase == waiting {
			f.finish(it, Verdict{})
		}
	}
	reset(&f.s.declined)
	for _, it := range f.s.toRelease {
		if it.phase == claimed {
			f.release(it)
		}
	}
	f.s.toRelease = f.s.toRelease[:0]
	for _, it := range f.s.toSettle {
		r := it.more()
		more := r.early.more
		r.early = nil
		f.succeed(it, more)
	}
	f.s.toSettle = f.s.toSettle[:0]
	f.countFirsts()
	f.noteIdle()
	if len(f.out) > 0 || f.s.eased {
		f.cmd.Improved = true
		f.s.eased = false
	}
	f.cmd.Concluded = append(f.cmd.Concluded, f.s.concluded...)
	reset(&f.s.concluded)
	return &f.cmd
}

// Work says for whom there may be something to do.
type Work struct{ Claims, Suspects, Probes, Settlements, Letters, Stuck, Wanted, Spare bool }

// Has says what there is to do.
func (f *Flow) Has() Work {
	return Work{
		Claims:      f.s.claimQ.len()+f.s.doubtQ.len()+f.s.rangeQ.len() > 0,
		Suspects:    f.s.suspectQ.len() > 0,
		Probes:      f.breaker.open,
		Settlements: f.settleQ.len()+f.rangesDone.len() > 0 || f.mayPark(),
		Letters:     f.letters.len() > 0,
		Stuck:       f.Watched(),
		Wanted:      f.permits != nil && f.permits.wanting.len() > 0,
		Spare:       f.permits != nil && f.permits.sparing.len() > 0,
	}
}

// Pending says whether End has something to do.
func (f *Flow) Pending() bool {
	return len(f.out)+len(f.s.declined)+len(f.s.toRelease)+len(f.s.toSettle)+len(f.cmd.Recall)+len(f.cmd.Ended) > 0
}

// Wake does what is due.
func (f *Flow) Wake(now time.Duration) {
	f.s.wake(now)
	f.timers.run(now)
}

// NextWake is when Wake has something to do.
func (f *Flow) NextWake() (at time.Duration, ok bool) {
	at = f.timers.next()
	if len(f.s.waits) > 0 {
		at = min(at, f.s.waits[0].due)
	}
	return at, at != never
}

// Session is the one that holds; nil: none does.
func (f *Flow) Session() *Session { return f.sess }

// Up says that the ledger answered last time.
func (f *Flow) Up() bool { return f.up }

// Closed says that all is over.
func (f *Flow) Closed() bool { return f.closed }

// Held says how many messages are in hand, how many of them wait for a time or their dead letter, and their bytes.
func (f *Flow) Held() (items, waiting int, bytes *Weight) {
	return f.s.held, f.s.waitCount + f.lettersOut, &f.s.bytes
}

// Empty says whether nothing at all is kept: what is finished leaves nothing in memory.
func (f *Flow) Empty() bool {
	s := f.s
	return f.all == nil && s.held == 0 && s.bytes.Total() == 0 && s.ahead+s.ranged+s.taken+s.waitCount+s.working == 0 &&
		len(s.sequences)+len(s.waits)+len(s.logs)+s.inflight.n == 0 && s.rules.empty() && len(f.kept)+len(f.calls)+len(f.dispatches)+f.watched+f.lettersOut == 0
}
