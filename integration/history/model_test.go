package history_test

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// model says what one message may become of, call by call. Its truth is ledger.Decide and ledger.DecideSettle; what is here
// is what they are asked about, and what follows from their answers.
type model struct {
	// ranged: the messages are held in ranges, see [model.settled] and [model.token].
	ranged bool
	// snapshots: a statement sees what it does not lock as it was when the statement began. If a claim's own owner is sealed
	// meanwhile, the claim may still write: a row that names a sealed owner, which anybody takes over. A mismatch that is
	// archived during a reopen may stay known, as if it had been archived after it; a reader may have seen that it was not.
	snapshots bool
	// watched: peers watch each other's beats, and no clock is a server's. Who is declared dead before its own lease is over, which only
	// tests do, goes on claiming until then, and its process takes it to be live: its rows name a sealed owner, which anybody else takes over.
	watched bool
}

// maxOwners is how many owners may have to do with one message.
const maxOwners = 16

// nobody is the holder of a row that was released or is finished.
const nobody = -1

// state is one message, with the owners that have to do with it. It is comparable.
type state struct {
	row        bool
	state      ledger.State
	body       int // of the row's fingerprint
	token      uint64
	holder     int
	attempts   int
	crashes    int
	generation int
	errors     int
	result     string
	due, late  int64 // it is due not before, and certainly after; 0: at once
	reopened   bool  // in a range it is then as if never claimed: the next token may be one less
	atLeast    bool  // token is the least that it may be: in a range, of a claim whose answer was lost
	archive    uint16
	archived   int
	owners     [maxOwners]life
}

// life is what is known of an owner.
type life struct {
	fate   ledger.Holder // Nobody: it has not joined
	end    int64         // its lease ends no sooner
	sealed int64         // its fate was sealed no later
	asked  bool          // to leave, and it may not have: where it is watched it claims nothing any more, nor writes into its ranges
}

// slack is how far the clocks of a database and of the test may be apart within a moment, and how coarse times are kept.
const slack = int64(5 * time.Millisecond)

// step returns the states in which the call may leave the message; none: it cannot have been answered so.
func (m *model) step(s state, o *op) []state {
	switch o.Kind {
	case doClaim:
		return m.claim(s, o)
	case doSettle:
		return m.settle(s, o)
	case doReopen:
		return m.reopen(s, o)
	case doRenew:
		return m.renew(s, o)
	case doGet:
		if o.unknown() || s.shows(o.Row) { // a reader that was killed says nothing
			return []state{s}
		}
		return nil
	}
	return m.live(s, o)
}

// live is the calls about an owner.
func (m *model) live(s state, o *op) []state {
	l := &s.owners[o.owner]
	switch o.Kind {
	case doJoin:
		l.fate, l.end = ledger.Live, o.Call+o.Lease
		return []state{s}
	case doBeat:
		if o.unknown() {
			return []state{s}
		}
		if o.Lost {
			return m.lost(s, o)
		}
		if l.fate != ledger.Live {
			return nil
		}
		l.end = o.Call + o.Lease
		return []state{s}
	}
	if l.fate != ledger.Live {
		return []state{s}
	}
	before := s
	l.fate, l.sealed = ledger.Left, o.Return
	if o.Kind == doDeclare {
		l.fate = ledger.Dead
	}
	if o.unknown() {
		before.owners[o.owner].asked = m.watched && o.Kind == doLeave
		return []state{before, s}
	}
	return []state{s}
}

// lost is an answer that says that the caller does not live any more.
func (m *model) lost(s state, o *op) []state {
	l := &s.owners[o.owner]
	if l.fate == ledger.Live && !l.asked && !o.leaving {
		if !l.mayEnd(o) {
			return nil
		}
		l.fate, l.sealed = ledger.Dead, o.Return
	}
	return []state{s}
}

// mayEnd says whether a peer may have declared the owner dead by then.
func (l *life) mayEnd(o *op) bool { return !o.unknown() && o.Return > l.end-slack }

// seen is the row as a claim may see it.
type seen struct {
	row   *ledger.Row
	state state // with what follows from seeing it so
	vague bool  // the rest of the lease is not known
}

// sees lists how the owner of a call may see the row.
func (m *model) sees(s state, o *op) []seen {
	if !s.row {
		return []seen{{state: s}}
	}
	r := ledger.Row{Fingerprint: prints[s.body], State: s.state, Token: s.token, Attempts: s.attempts, Crashes: s.crashes}
	r.Archived = o.Delivery != 0 && s.archive&(1<<o.Delivery) != 0
	var due []ledger.Row
	if s.due == 0 || o.open() || o.Return >= s.due {
		due = append(due, r)
	}
	if s.due != 0 && o.Call <= s.late {
		r.DueIn = time.Hour
		due = append(due, r)
	}
	if s.atLeast && s.token == 1 { // a first claim, or not: nobody was told, see the rule of Park in Decide
		for _, r := range due {
			r.Token++
			due = append(due, r)
		}
	}
	var out []seen
	for i := range due {
		r := &due[i]
		one := seen{row: r, state: s}
		switch s.holder {
		case nobody:
		case o.owner:
			r.Holder = ledger.Mine
		default:
			l := &s.owners[s.holder]
			r.Holder, r.HeldFor = l.fate, time.Minute
			if l.fate == ledger.Live && l.mayEnd(o) {
				dead := *r
				dead.Holder = ledger.Dead
				later := one
				later.row = &dead
				later.state.owners[s.holder].fate, later.state.owners[s.holder].sealed = ledger.Dead, o.Return
				out = append(out, later)
				one.vague = true
			}
			if l.fate == ledger.Dead && m.watched {
				live := one
				as := *r
				as.Holder = ledger.Live
				live.row, live.vague = &as, true
				out = append(out, live)
			}
		}
		out = append(out, one)
	}
	return out
}

func (m *model) claim(s state, o *op) []state {
	if o.Lost {
		return m.lost(s, o)
	}
	me := &s.owners[o.owner]
	locked := !o.open() && o.contended && *o.Got == (answer{}) // row 2: held locked by another
	if me.fate != ledger.Live && (!m.snapshots || o.Call >= me.sealed) && (!m.watched || me.fate != ledger.Dead) {
		if o.open() || locked {
			return []state{s}
		}
		return nil
	}
	e := ledger.Entry{Fingerprint: prints[bodyOf(o.Delivery)], StampToken: o.Stamp, Solo: o.Solo, Park: o.Park}
	var out []state
	for _, as := range m.sees(s, o) {
		d := ledger.Decide(as.row, e)
		if o.open() || m.agrees(&as, o.Got, &d) {
			out = append(out, m.claimed(as.state, o, &d))
		}
		if m.watched && o.mixed && !o.open() && d.Answer == ledger.Done && as.row.Archived {
			// A message and its archive are read one after the other, too, and it may be reopened between. Nothing is written then.
			before := *as.row
			before.Archived = false
			if d := ledger.Decide(&before, e); d.Answer == ledger.Busy && m.agrees(&as, o.Got, &d) {
				out = append(out, as.state)
			}
		}
	}
	// A message and its owner are read one after the other: it may be finished, and its owner dead since. Nothing is written then.
	skewed := m.watched && !o.open() && o.Got.Answer == ledger.Busy && o.Got.Suspect && s.row && s.crashes+1 >= ledger.SuspectCrashes
	if o.open() || locked || skewed {
		out = append(out, s)
	}
	return out
}

// agrees compares an answer with the table's.
func (m *model) agrees(as *seen, got *answer, d *ledger.Decision) bool {
	if got.Answer != d.Answer || got.Suspect != d.Suspect || got.Uncertain != d.Uncertain || got.TookOver != d.TookOver {
		return false
	}
	if (got.Wait > 0) != (d.Wait > 0) && !as.vague {
		return false
	}
	if d.Answer == ledger.Done {
		return got.State == as.state.state && (got.State != ledger.Succeeded || got.Result == as.state.result)
	}
	if !d.Write {
		return got.Token == 0
	}
	errors := as.state.errors
	if d.Renew {
		errors = 0
	}
	attempt := 0
	if d.Answer == ledger.Run {
		attempt = d.Attempts + 1
	}
	return m.token(&as.state, got.Token, d.Token) && got.Attempt == attempt && got.Crashes == d.Crashes && got.Errors == errors &&
		got.Generation == as.state.generation
}

// token says whether a claim may have that token. In a range tokens grow, and no more is promised: they count the claims of
// a log's messages. Where the store is a table behind a network a claim's request may come twice, and the second one be answered: it has found the
// message to be its own already, and claimed it once more.
func (m *model) token(s *state, got, want uint64) bool {
	return got == want || m.ranged && (got > want || s.reopened && got == want-1) || m.watched && got == want+1
}

// claimed is the message after the table's answer.
func (m *model) claimed(s state, o *op, d *ledger.Decision) state {
	if !d.Write {
		return s
	}
	if !s.row {
		s.row, s.body = true, bodyOf(o.Delivery)
	}
	if d.Renew {
		s.errors = 0
	}
	s.state, s.token, s.attempts, s.crashes = ledger.Pending, d.Token, d.Attempts, d.Crashes
	if s.reopened {
		s.token-- // the least that it may be
	}
	s.holder, s.due, s.late, s.result, s.reopened, s.atLeast = o.owner, 0, 0, "", false, m.ranged && o.Got == nil
	if o.Got != nil {
		s.token = o.Got.Token
	}
	return s
}

func (m *model) settle(s state, o *op) []state {
	var r *ledger.Row
	if s.row {
		r = &ledger.Row{State: s.state, Token: s.token, Holder: ledger.Live, Archived: o.Delivery != 0 && s.archive&(1<<o.Delivery) != 0}
		switch s.holder {
		case nobody:
			r.Holder = ledger.Nobody
		case o.owner:
			r.Holder = ledger.Mine
		}
	}
	ticket := ledger.NewTicket([ledger.KeySize]byte{}, o.Token)
	if o.Mismatch {
		ticket = ledger.MismatchTicket([ledger.KeySize]byte{})
	}
	effect := ledger.DecideSettle(r, ledger.Settlement{Ticket: ticket, Kind: o.Settle})
	writes := effect == ledger.EffectWrite || effect == ledger.EffectFile
	switch {
	case o.unknown() && writes:
		return []state{s, m.settled(s, o, effect)}
	case o.unknown():
		return []state{s}
	case o.Lost && effect == ledger.EffectLost:
		return []state{s}
	case o.Lost && m.ranged && effect == ledger.EffectHolds && o.from != o.owner:
		return []state{s} // another owner's ticket: what succeeded in a range keeps no token
	case o.Lost && m.ranged:
		return m.lost(s, o) // only a live owner writes into its ranges
	case o.Lost:
		return nil
	case m.watched && m.ranged && o.Settle == ledger.Release && s.owners[o.owner].fate == ledger.Dead:
		if writes {
			return []state{s, m.settled(s, o, effect)}
		}
		return []state{s} // its range is gone: to a process that takes it to be live, what it gave back is given back
	case writes:
		return []state{m.settled(s, o, effect)}
	case effect == ledger.EffectHolds, m.ranged && o.repeated:
		return []state{s} // in a range its owner remembers what a ticket was settled as
	}
	return nil
}

// settled is the message after a settlement that was written.
func (m *model) settled(s state, o *op, effect ledger.Effect) state {
	if o.Settle == ledger.Fail && s.archive&(1<<o.Delivery) == 0 {
		s.archive |= 1 << o.Delivery
		s.archived++
	}
	if effect == ledger.EffectFile {
		return s
	}
	s.holder, s.result = nobody, ""
	switch o.Settle {
	case ledger.Succeed:
		s.state, s.result = ledger.Succeeded, o.Result
	case ledger.Fail:
		s.state = ledger.Failed
	case ledger.Release:
		if o.After > 0 {
			s.due, s.late = o.Call+int64(o.After)-slack, never
			if !o.unknown() {
				s.late = o.Return + int64(o.After) + slack
			}
		}
		if o.Count {
			s.attempts++
			s.errors++
		}
	}
	return s
}

func (m *model) reopen(s state, o *op) []state {
	was := s
	if may := s.row && s.state == ledger.Succeeded; !may {
		if o.Done {
			return nil
		}
		return []state{was}
	}
	s.state, s.holder, s.attempts, s.crashes, s.errors, s.result, s.archive = ledger.Pending, nobody, 0, 0, 0, "", 0
	s.token++
	s.reopened = m.ranged
	if o.Fresh {
		s.generation++
	}
	after := []state{s}
	for unseen := uint16(1); m.snapshots && unseen <= o.filed; unseen <<= 1 {
		for _, one := range after {
			if unseen&o.filed&was.archive != 0 {
				one.archive |= unseen
				after = append(after, one)
			}
		}
	}
	switch {
	case o.unknown():
		return append(after, was)
	case o.Done:
		return after
	case o.contended || o.Skipped || m.ranged: // it may succeed after the list was read, or lie in a range that is open
		return []state{was}
	}
	return nil
}

func (m *model) renew(s state, o *op) []state {
	may := s.row && s.state == ledger.Failed && s.token == o.Token
	was := s
	s.token++
	s.generation++
	switch {
	case o.unknown() && may:
		return []state{was, s}
	case o.unknown(), o.Lost && (!may || o.contended):
		return []state{was}
	case !o.Lost && may:
		return []state{s}
	}
	return nil
}

// shows says whether a reader may have seen the message so.
func (s *state) shows(v *view) bool {
	if v.State == 0 || !s.row {
		return v.State == 0 && !s.row && v.Archive == s.archived
	}
	return v.State == s.state && v.Token == s.token && v.holder == s.holder && v.Crashes == s.crashes &&
		v.Generation == s.generation && v.Result == s.result && v.Archive == s.archived &&
		(s.state == ledger.Failed || v.Attempts == s.attempts)
}
