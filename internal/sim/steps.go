package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// stepping is a handler that makes the outside calls of its messages, one after the other, and records what came of each before it goes
// on (consumer.Step).
type stepping struct {
	*chunk
	attempt *ledger.Attempt
	at      int     // which of its messages
	nth     int     // which of that one's steps
	errs    []error // that a step has ended the handling of a message with
}

// kept is what the ledger has of a step, and by which claim.
type kept struct {
	result []byte
	failed bool
	token  uint64
}

// Bounds of steps.
const (
	stepTime  = 2 * time.Millisecond // of an outside call
	stepLimit = 10 * time.Second     // for its recording
)

// errCall is what an outside call fails with.
var errCall = errors.New("sim: the outside call failed")

// stepsOf is how many steps there are in the handling of a message.
func (w *world) stepsOf(m message) int {
	return int(mix(w.cfg.Seed, 0x57e9, uint64(m.partition), uint64(m.offset)) % uint64(w.cfg.Steps+1))
}

// outside makes the steps of a handler, and then returns from it.
func (c *chunk) outside() {
	if c.p.cfg.Steps > 0 {
		c.steps = &stepping{chunk: c, attempt: c.attempt(), errs: make([]error, len(c.running))}
		c.steps.next()
		return
	}
	c.returns(false)
}

// next makes the next step. A message whose handler kills the process does so behind any of them.
func (s *stepping) next() {
	c := s.chunk
	if s.at < len(c.running) && (s.errs[s.at] != nil || s.nth == s.p.stepsOf(s.of().message)) {
		s.at, s.nth = s.at+1, 0
		s.next()
		return
	}
	ended := s.at == len(c.running)
	for _, r := range c.running {
		if m := of(r.it).message; s.p.marked(deadly, m) && (ended || s.p.rnd.IntN(2) == 0) {
			s.p.kill("is killed in its steps by", m)
			return
		}
	}
	if off := c.cancelled(); off || ended {
		c.returns(off)
		return
	}
	s.begin()
}

func (s *stepping) run() *running { return s.running[s.at] }
func (s *stepping) of() delivery  { return of(s.run().it) }
func (s *stepping) name() string  { return fmt.Sprintf("step-%d", s.nth) }

// ends goes on behind a step; an error is what the message's handler returns.
func (s *stepping) ends(err error) {
	s.errs[s.at] = err
	s.nth++
	s.p.after(0, s.next)
}

// begin asks what is recorded of a step. The ledger is asked with the first one of a message, unless nothing can be recorded.
func (s *stepping) begin() {
	var known *ledger.Step
	at, name := s.at, s.name()
	ask := func() (err error) {
		known, err = s.attempt.BeginStep(context.Background(), at, name)
		return err
	}
	if s.nth > 0 || s.run().ticket.Token() == 1 && s.p.cfg.Batch == 0 {
		s.begun(known, ask())
		return
	}
	s.p.call("a look at steps", ask, func(err error) { s.begun(known, err) })
}

// begun gives back what is recorded, or makes the call.
func (s *stepping) begun(known *ledger.Step, err error) {
	if _, ok := errors.AsType[*ledger.InvalidError](err); ok {
		s.p.breaks(s.of().message, "a step begins once in an attempt: %s is told %v", s.p, err)
	}
	switch {
	case err != nil:
		s.ends(err)
	case known != nil:
		s.mustBeRecorded(known)
		s.p.report.Given++
		if s.p.note(s.p, "is given back a step of", s.of().message, int64(s.nth)); known.Failed {
			err = consumer.Terminal(errCall)
		}
		s.ends(err)
	default:
		s.mustBeNew()
		s.p.note(s.p, "makes a step of", s.of().message, int64(s.nth))
		took := s.p.between(0, stepTime)
		if s.p.trouble(slow) {
			took = s.p.between(0, time.Second)
		}
		s.p.after(took, s.made)
	}
}

// made is the end of the call. That it failed is recorded if it is for good.
func (s *stepping) made() {
	r := s.run()
	step := ledger.Step{Name: s.name(), Result: fmt.Appendf(nil, "%s by %s, token %d, at %s", s.name(), s.p, r.ticket.Token(), s.p.now)}
	switch {
	case s.p.trouble(retried):
		s.ends(errCall)
	case s.p.trouble(failing):
		step.Failed = true
		s.record(step, s.p.now+stepLimit)
	default:
		s.record(step, s.p.now+stepLimit)
	}
}

// record records a step, until the ledger has answered.
func (s *stepping) record(step ledger.Step, limit time.Duration) {
	d, p, r, at := s.of(), s.p, s.run(), s.at
	p.call("a record of a step", p.strays(r.sess, timeout, func() error {
		err := p.torn(func() error { return s.attempt.RecordStep(context.Background(), at, step) }, func(yield func(delivery)) { yield(d) }, false)
		s.hasRecorded(r, &step, err)
		return err
	}), func(err error) {
		switch {
		case ledger.IsLost(err):
			s.ends(err)
		case err != nil && p.now < limit:
			p.after(p.outage(), func() { s.record(step, limit) })
		case err != nil:
			s.ends(errAway)
		case step.Failed:
			s.ends(consumer.Terminal(errCall))
		default:
			s.ends(nil)
		}
	})
}

// hasRecorded notes what the ledger has of a step after a call that records it, and checks the answer.
func (s *stepping) hasRecorded(r *running, step *ledger.Step, err error) {
	d := of(r.it)
	rec, bad := s.p.ledger.Get(context.Background(), d.key)
	f := s.p.facts.of(d.message)
	has := false
	for i := range rec.Steps {
		has = has || rec.Steps[i].Name == step.Name
	}
	mine := bad == nil && rec.State == ledger.Pending && rec.Token == r.ticket.Token() && rec.Owner == r.sess.owner.ID()
	switch _, known := f.recorded[step.Name]; {
	case err == nil && !has:
		s.p.breaks(d.message, "what is recorded is kept: %s of %s is not", step.Name, d)
	case (err == nil || has && !known) && !mine:
		s.p.breaks(d.message, "a stale token never records: %s records %s of %s with token %d, which is %s with %d of %q", s.p, step.Name, d, r.ticket.Token(), rec.State,
			rec.Token, rec.Owner)
	case has && !known:
		if f.recorded == nil {
			f.recorded = map[string]kept{}
		}
		f.recorded[step.Name] = kept{step.Result, step.Failed, r.ticket.Token()}
		s.p.report.Recorded++
		s.p.note(s.p, "has recorded a step of", d.message, int64(s.nth))
	case ledger.IsLost(err) && mine && !s.p.mayLose(r.sess):
		s.p.breaks(d.message, "who has a message records its steps: %s is told %v of %s", s.p, err, d)
	}
	if x := s.p.twin.rows[d.key.Sum()]; has && x != nil && x.ranged { // it has left its range for a row
		x.ranged, x.moved = false, true
	}
}

// mustBeNew checks a step that is made: nobody has recorded it. Whoever has lost the message may make it beside its new owner, and what a
// log has lost its ledger may forget.
func (s *stepping) mustBeNew() {
	d, r := s.of(), s.run()
	f := s.p.facts.of(d.message)
	if k, is := f.recorded[s.name()]; is && k.token <= r.ticket.Token() && !f.old {
		s.p.breaks(d.message, "a recorded step is never run again: %s makes %s of %s with token %d, which is recorded with %d", s.p, s.name(), d, r.ticket.Token(), k.token)
	}
}

// mustBeRecorded checks a step that is given back.
func (s *stepping) mustBeRecorded(known *ledger.Step) {
	d := s.of()
	f := s.p.facts.of(d.message)
	if k, is := f.recorded[known.Name]; f.old {
		return
	} else if !is || !bytes.Equal(k.result, known.Result) || k.failed != known.Failed {
		s.p.breaks(d.message, "what is given back of a step is recorded: %s gets %q of %s of %s, not %q", s.p, known.Result, known.Name, d, k.result)
	}
}

// stepped is how long a message takes with its steps, and how many calls there are, in a world without trouble: a message of a batch asks
// what is recorded.
func (w *world) stepped(each time.Duration, calls int) (time.Duration, int) {
	n := w.cfg.Steps
	if n == 0 {
		return each, calls
	}
	each += time.Duration(n) * (stepTime + 6*time.Millisecond)
	calls += w.report.Messages * n
	if w.cfg.Batch > 0 {
		each, calls = each+6*time.Millisecond, calls+w.report.Messages
	}
	return each, calls
}
