package sim

import (
	"bytes"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// reply is what a caller is told in the end.
type reply uint8

// What callers are told.
const (
	gotAnswer      reply = iota
	gotFailure           // for good
	gotError             // its function's, which may run again
	gotUnknown           // whether it was done
	gotUnavailable       // nothing starts
	gotInProgress
	gotWaited // in vain
	gotMismatch
	gotRefused // by the ledger
	gotGone    // it has given up, and hears nothing
	replies
)

var replyNames = [replies]string{"an answer", "a failure", "an error", "not known", "unavailable", "in progress", "waited in vain", "a mismatch", "refused", "nothing"}

// String is what is told, for people.
func (t reply) String() string { return replyNames[t] }

// mustBeTrue checks what a caller is told.
func (c *call) mustBeTrue(what reply, answer []byte) {
	r, q := c.in, c.of
	if c.begun && what >= gotUnavailable {
		r.breaks(q.message, "who is told that nothing was done was not run: %s tells of %s after it ran %s", r, what, q)
	}
	if most := max(c.asked+callWait, r.frozen); !c.begun && r.now > most+time.Millisecond {
		r.breaks(q.message, "no caller waits for longer than its limit: %s tells of %s of %s at %s, not by %s", r, what, q, r.now, most)
	}
	switch what {
	case gotAnswer:
		c.mustBeStored(ledger.Succeeded, answer)
	case gotFailure:
		c.mustBeStored(ledger.Failed, answer)
	case gotInProgress:
		if !c.isElsewhere() {
			r.breaks(q.message, "in progress is what somebody else has: %s tells it of %s", r, q)
		}
	case gotWaited:
		if c.said.Differs() {
			r.breaks(q.message, "who has another body is told so: %s tells of %s of %s", r, what, q)
		}
	case gotMismatch:
		if !c.differs() {
			r.breaks(q.message, "a mismatch is of another body: %s tells it of %s", r, q)
		}
	}
}

// mustBeStored checks an answer: the ledger has had it since the call, or the one that it waited for, began.
func (c *call) mustBeStored(state ledger.State, answer []byte) {
	past := c.of.past
	for i := range past {
		s := &past[i]
		over := i+1 < len(past) && past[i+1].at < c.flight.began
		if !over && s.state == state && bytes.Equal(s.result, answer) && !c.differs() {
			return
		}
	}
	c.in.breaks(c.of.message, "what is answered is stored: %s answers that %s is %s, %q", c.in, c.of, state, answer)
}

// differs says whether the ledger knows the request by another body.
func (c *call) differs() bool { return c.of.known && c.of.body != c.by.body }

// isElsewhere says whether another call has had the request since this one began, or its row was locked or in backoff.
func (c *call) isElsewhere() bool {
	if h := &c.said.Heard; c.answered && h.Answer == ledger.Busy && !h.Held && !h.Suspect {
		return true
	}
	past := c.of.past
	for i := range past {
		over := i+1 < len(past) && past[i+1].at < c.asked
		if s := &past[i]; !over && s.owned && s.by != c {
			return true
		}
	}
	for _, o := range c.of.calls {
		if o != c && o.in == c.in && o.taken && (o.letGo == 0 || o.letGo >= c.asked) {
			return true
		}
	}
	return false
}

// mustBeAwaited checks a call whose function begins.
func (c *call) mustBeAwaited() {
	switch {
	case c.returned:
		c.in.breaks(c.of.message, "nothing runs for a caller that was told otherwise: %s begins %s", c.in, c.of)
	case c.begun:
		c.in.breaks(c.of.message, "a call runs its function once: %s begins %s again", c.in, c.of)
	}
}

// mustBeMade checks an answer that the ledger has got: it is that of a run that ended well, or of the one whose effect is committed.
func (q *request) mustBeMade(s *held) {
	switch {
	case q.desk.cfg.InTx && !bytes.Equal(s.result, q.effect):
		q.desk.breaks(q.message, "effect and answer are one: %s has the effect of %q, and %q is stored", q, q.effect, s.result)
	case !q.desk.cfg.InTx && !q.made[string(s.result)]:
		q.desk.breaks(q.message, "what is stored was answered by a run: %q is stored of %s", s.result, q)
	}
}

// mustHaveAnswered checks a world in which nothing went wrong: each request ran once, and each caller got its answer, at once or, where it
// does not wait, later.
func (w *world) mustHaveAnswered() {
	for what, n := range w.report.Told {
		if reply(what) != gotAnswer && reply(what) != gotInProgress && n > 0 {
			w.breaks(none, "without trouble callers are answered: %d were told of %s", n, reply(what))
		}
	}
	if w.report.Runs != w.report.Messages || w.facts.met.Misses != int64(w.report.Messages) {
		w.breaks(none, "without trouble each request runs once: %d runs of %d requests, %+v", w.report.Runs, w.report.Messages, w.facts.met)
	}
}
