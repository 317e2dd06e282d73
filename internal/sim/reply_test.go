package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// Each promise to callers is told by name when it is broken.
func TestBrokenPromisesToCallersAreTold(t *testing.T) {
	for promise, breaks := range map[string]func(c *call){
		"who is told that nothing was done was not run": func(c *call) { c.begun = true; c.mustBeTrue(gotWaited, nil) },
		"no caller waits for longer than its limit": func(c *call) {
			c.in.now = callWait + time.Second
			c.mustBeTrue(gotUnavailable, nil)
		},
		"in progress is what somebody else has": func(c *call) { c.mustBeTrue(gotInProgress, nil) },
		"who has another body is told so":       func(c *call) { c.said.Hear(&ledger.Claim{Answer: ledger.Mismatch}); c.mustBeTrue(gotWaited, nil) },
		"a mismatch is of another body":         func(c *call) { c.mustBeTrue(gotMismatch, nil) },
		"what is answered is stored": func(c *call) {
			c.of.past = []held{{state: ledger.Succeeded, result: []byte("another")}}
			c.mustBeTrue(gotAnswer, []byte("one"))
		},
		"what is answered is stored: worker 0.1 answers that 0-0 is succeeded, \"old\"": func(c *call) {
			c.of.past = []held{{state: ledger.Succeeded, result: []byte("old")}, {at: time.Second, state: ledger.Pending}}
			c.flight.began = 2 * time.Second
			c.mustBeTrue(gotAnswer, []byte("old"))
		},
		"what is answered is stored: worker 0.1 answers that 0-0 is failed": func(c *call) {
			c.of.past = []held{{state: ledger.Succeeded, result: []byte("one")}}
			c.mustBeTrue(gotFailure, []byte("one"))
		},
		"what is answered is stored: worker 0.1 answers that 0-0 is succeeded, \"one\"": func(c *call) { // to another body
			c.of.past = []held{{state: ledger.Succeeded, result: []byte("one")}}
			c.of.known, c.of.body = true, 1
			c.mustBeTrue(gotAnswer, []byte("one"))
		},
		"nothing runs for a caller that was told otherwise": func(c *call) { c.giveUp(); c.begins(&running{by: c.in.process}) },
		"a call runs its function once":                     func(c *call) { c.begins(&running{by: c.in.process}); c.begins(&running{by: c.in.process}) },
		"effect and answer are one": func(c *call) {
			c.in.cfg.InTx = true
			c.of.mustBeMade(&held{state: ledger.Succeeded, result: []byte("one")})
		},
		"what is stored was answered by a run": func(c *call) {
			c.begins(&running{by: c.in.process})
			c.ends(engine.Ended{Err: errHandler}, &flow.Outcome{Ask: true})
			c.of.mustBeMade(&held{state: ledger.Succeeded, result: c.answer})
		},
		"an answer can be set before the commit": func(c *call) {
			a := ledger.NewAttempt(c.in.sess.owner, ledger.NewTicket(c.of.key.Sum(), 1))
			a.End(ledger.AttemptSucceeded, nil)
			it := c.in.item(delivery{message: c.of.message, key: c.of.key, of: c}, "")
			(&chunk{p: c.in.process, running: []*running{{it: it}}}).answers(a)
		},
		"without trouble callers are answered": func(c *call) { c.in.report.Told[gotUnknown]++; c.in.mustHaveAnswered() },
		"without trouble each request runs once": func(c *call) {
			c.in.report.Runs = 1
			c.in.mustHaveAnswered()
		},
	} {
		t.Run(promise, func(t *testing.T) {
			x := newBroken(t)
			x.w.cfg.Callers, x.w.cfg.Partitions, x.w.cfg.Messages = 2, 1, 2
			d := newDesk(x.w)
			x.w.broker = d
			x.both[0].source = d.join(x.both[0])
			k := &caller{of: d.requests[0], at: x.both[0]}
			c := &call{by: k, of: k.of, in: x.both[0].source.(*runner), flight: &flight{}}
			breaks(c)
			if b := x.w.broken; b == nil || !strings.HasPrefix(b.Promise, promise) {
				t.Errorf("%+v", b)
			}
		})
	}
}

// In worlds of callers all happens that a caller can be told, and in those with steps some are given back.
func TestCallersAreToldAll(t *testing.T) {
	t.Parallel()
	var all Report
	for seed := uint64(0); seed < 200; seed++ {
		c := Drawn(seed)
		if c.Callers == 0 && c.Steps == 0 {
			continue
		}
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		for what, n := range r.Told {
			all.Told[what] += n
		}
		all.Recorded, all.Given = all.Recorded+r.Recorded, all.Given+r.Given
	}
	for what, n := range all.Told {
		if n == 0 {
			t.Errorf("nobody is told of %s", reply(what))
		}
	}
	if all.Recorded == 0 || all.Given == 0 {
		t.Errorf("%d steps are recorded, %d given back", all.Recorded, all.Given)
	}
	t.Logf("callers are told %v; %d steps are recorded, %d given back", all.Told, all.Recorded, all.Given)
}
