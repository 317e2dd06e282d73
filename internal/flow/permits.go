package flow

// PermitCount is a number of permits of a key.
type PermitCount struct {
	Key    string
	N      int
	Most   int  // there are, for all workers
	Yields bool // permits of the key were just given back while items wait: others are to have a chance first
}

// permitKeys is how many keys one call asks for, or gives back, at most.
const permitKeys = 200

// NextWanted takes what permits are to be asked for now; false: none. Each is to be followed by Permitted.
func (f *Flow) NextWanted(wanted *[]PermitCount) (*Session, bool) {
	*wanted = (*wanted)[:0]
	if r := f.permits; r != nil && f.MayWork() {
		for r.wanting.len() > 0 && len(*wanted) < permitKeys {
			p := r.wanting.pop()
			p.wants = false
			if n := r.wanted(p); n > 0 {
				*wanted = append(*wanted, PermitCount{Key: p.key, N: n, Most: p.most, Yields: p.yields})
				p.asked += n
				p.yields = false
			}
			r.note(p)
		}
	}
	return f.sess, len(*wanted) > 0
}

// Permitted takes the answer: so many permits of those that were wanted have come, or more.
func (f *Flow) Permitted(s *Session, w PermitCount, got int) {
	if s.lost {
		return
	}
	r := f.permits
	p := r.keys[w.Key]
	p.asked -= w.N
	p.held += got
	if w.Most > p.most { // the limit was lowered meanwhile: some may be beyond it
		p.giving += got
	}
	r.left = p
	for next := r.Next(); next != nil; next = r.Next() {
		next.refused = false
		next.admitted++
		f.s.relist(next)
	}
}

// NextSpare takes what permits are to be given back now; false: none. They are not ours from then on.
func (f *Flow) NextSpare(spare *[]PermitCount) (*Session, bool) {
	*spare = (*spare)[:0]
	if r := f.permits; r != nil && f.sess != nil {
		for r.sparing.len() > 0 && len(*spare) < permitKeys {
			p := r.sparing.pop()
			p.spares = false
			if n := p.spare(); n > 0 {
				*spare = append(*spare, PermitCount{Key: p.key, N: n})
				p.held -= n
				p.giving = 0
			}
			r.note(p)
		}
	}
	return f.sess, len(*spare) > 0
}

// Permits says how many permits are in hand, and how many items wait for one.
func (f *Flow) Permits() (held, waiting int) {
	if f.permits != nil {
		for _, p := range f.permits.keys {
			held, waiting = held+p.held, waiting+p.line.len()
		}
	}
	return held, waiting
}

// PermitTurn ends the turns of permits for which others may wait.
func (f *Flow) PermitTurn() {
	if f.permits != nil {
		f.permits.turn()
	}
}

// losePermits is the end of a session: what has a permit and is not claimed yet asks anew.
func (f *Flow) losePermits() {
	if f.permits == nil {
		return
	}
	f.permits.lose()
	for it := range f.items {
		if it.admitted > 0 && !it.holds {
			waits := it.refused
			f.s.rules.forget(it, f.s.relist)
			if waits {
				f.s.relist(it)
			}
		}
	}
}
