package sim

import (
	"errors"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// What goes wrong.
var (
	errAway     = errors.New("sim: the ledger is away")
	errLocked   = errors.New("sim: the row is locked")
	errUnsealed = errors.New("sim: the cipher is away")
	errUnkeyed  = errors.New("sim: the message has no key")
	errHandler  = errors.New("sim: the handler failed")
)

// call sends a request to the ledger.
func (p *process) call(what string, execute func() error, answered func(error)) {
	p.report.Calls++
	p.request(what, p.reach(timeout), execute, answered)
}

// fence sends a fence with its COMMIT: no deadline travels with it, so it may come long after it was given up.
func (p *process) fence(what string, execute func() error, answered func(error)) {
	p.report.Calls++
	p.request(what, p.reach(4*timeout), execute, answered)
}

// request sends a request and waits for the answer. execute runs when the request arrives, unless that is after the limit; answered gets what it returned, an error that says that nobody knows, or one that says that it was not executed. Each
// callback runs once, and answered does not where the process has died.
func (p *process) request(what string, limit time.Duration, execute func() error, answered func(error)) {
	w, over := p.world, false
	deadline := w.now + limit
	end := func(err error) {
		if !over {
			over = true
			answered(err)
		}
	}
	switch {
	case w.trouble(refused):
		p.after(w.latency(), func() { end(errAway) })
		return
	case w.trouble(requestLost):
		w.note(p, "loses "+what, none, 0)
	default:
		late := w.latency()
		if w.trouble(callLate) {
			late = w.between(0, limit+time.Second)
		}
		w.after(late, func() {
			if w.now >= deadline {
				return
			}
			err := execute()
			if w.trouble(answerLost) {
				w.note(p, "gets no answer to "+what, none, 0)
				return
			}
			p.after(w.latency(), func() { end(err) })
		})
	}
	p.after(timeout, func() { end(ledger.MarkUnknown(errAway)) })
}
