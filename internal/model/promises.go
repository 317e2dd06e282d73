package model

import (
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
)

// broke says which promise a step or the state after it breaks; "" none.
func (x *machine) broke(was *state, n *next) string {
	if n.wrong != "" {
		return n.wrong
	}
	s := &n.state
	for m := range uint8(len(x.cfg.Messages)) {
		if why := x.rowBroke(&was.Rows[m], &s.Rows[m]); why != "" {
			return why
		}
		if why := x.messageBroke(s, m); why != "" {
			return why
		}
	}
	for c := range s.Next {
		if why := x.copyBroke(s, c); why != "" {
			return why
		}
	}
	if x.cfg.Broker == Log && s.Offset < was.Offset {
		return promises.OffsetGrows + ": it goes back"
	}
	return ""
}

// rowBroke compares a row before and after a step.
func (x *machine) rowBroke(was, r *row) string {
	switch {
	case was.State == ledger.Succeeded && *r != *was:
		return promises.FinishedStays + ": what succeeded does not stay so"
	case r.Token < was.Token:
		return promises.TokensGrow + ": one goes back"
	}
	return ""
}

// messageBroke looks at one message.
func (x *machine) messageBroke(s *state, m uint8) string {
	r := &s.Rows[m]
	switch {
	case r.State != ledger.Succeeded && !x.somewhere(s, m):
		return promises.NothingLost + ": a message is nowhere, and not finished"
	case r.State == ledger.Failed && (r.Failed == 0 || !s.archived(r.Failed-1)):
		return promises.NothingLost + ": a message failed, and its delivery is not in the archive"
	case x.cfg.Tx && s.Effects[m] > 1:
		return promises.EffectsOnce + ": the effects are there twice"
	case x.cfg.Tx && (s.Effects[m] == 1) != (r.State == ledger.Succeeded):
		return promises.EffectsOnce + ": one is there without the other"
	case x.cfg.Park && s.Effects[m] > 1:
		return promises.ParkedStays + ": its effect is there twice"
	case r.Attempts > s.Fails[m]:
		return promises.AttemptsEnd + ": one is counted that did not fail"
	case int(r.Attempts) > x.limit:
		return promises.AttemptsEnd + ": there are more than the limit"
	case x.killed && x.before(m)+int(s.Kills[m]) > ledger.CrashLimit:
		return promises.CrashesEnd + ": a message kills more processes than the limit allows"
	case r.Crashes > s.Deaths:
		return promises.CrashesEnd + ": one is counted, and nobody died"
	case r.State == ledger.Failed && x.gentle && x.kinds[m] == Innocent && !x.cfg.Park:
		return promises.InnocentStays + ": one failed"
	case x.owners(s, m) > 1:
		return promises.OneOwner
	}
	return ""
}

// somewhere says whether a message that did not succeed can still be found: at the broker, in the queue that the broker
// moved it to, or with its whole body in the archive.
func (x *machine) somewhere(s *state, m uint8) bool {
	if s.body(m) || s.Rows[m].Parked == 1 && s.Rows[m].State == ledger.Pending {
		return true
	}
	for c := range s.Next {
		o := &s.Copies[c]
		if o.Message != m || o.Own != 0 || s.Rows[m].State != 0 && o.Other != s.Rows[m].Other {
			continue
		}
		if x.cfg.Broker == Log && c >= s.Offset || x.cfg.Broker == Queue && (o.Place == waiting || o.Place == flying) {
			return true
		}
	}
	for l := range s.Letters {
		if o := &s.Letters[l]; o.Used == 1 && o.Message == m && o.Moved == 1 {
			return true
		}
	}
	return false
}

// copyBroke looks at one delivery: what the broker was told to forget is finished. A stamped copy is that of a message
// that may have moved on since.
func (x *machine) copyBroke(s *state, c uint8) string {
	o := &s.Copies[c]
	forgotten := o.Place == deleted
	if x.cfg.Broker == Log {
		forgotten = s.inLog(c) && c < s.Offset
	}
	switch {
	case !forgotten || s.archived(c):
	case s.Rows[o.Message].State != 0 && o.Other != s.Rows[o.Message].Other:
		return promises.AckedFinished + ": another body was not, and is not in the archive"
	case o.Stamp == 0 && !s.terminal(o.Message) && s.Rows[o.Message].Parked == 0:
		return promises.AckedFinished + ": a message was not"
	}
	return ""
}

// owners counts the handlers that run a message under an owner that is live.
func (x *machine) owners(s *state, m uint8) int {
	n := 0
	for w := range x.cfg.Workers {
		p := &s.Workers[w]
		for c := range s.Next {
			it := &p.Items[c]
			runs := s.Copies[c].Message == m && (it.Phase == running || it.Phase == fenced)
			if runs && (s.Owners[it.Owner-1].Fate == live || x.believes(s, uint8(w), it.Owner)) {
				n++
			}
		}
	}
	return n
}

// before are the crashes that were counted for a message before the start.
func (x *machine) before(m uint8) int {
	if int(m) < len(x.cfg.Crashed) {
		return x.cfg.Crashed[m]
	}
	return 0
}

// finished says whether a world in which no more faults happen has come to its end.
func (x *machine) finished(s *state) bool {
	for m := range uint8(len(x.cfg.Messages)) {
		if !s.terminal(m) {
			return false
		}
	}
	if x.cfg.Broker == Log {
		return s.Offset >= x.end(s)
	}
	for c := range s.Next {
		if p := s.Copies[c].Place; p == waiting || p == flying {
			return false
		}
	}
	return true
}

// end is one past the last record of the log.
func (x *machine) end(s *state) uint8 {
	v := uint8(0)
	for c := range s.Next {
		if s.inLog(c) {
			v = c + 1
		}
	}
	return v
}
