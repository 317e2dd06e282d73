package sim

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Each promise of steps is told by name when it is broken.
func TestBrokenPromisesOfStepsAreTold(t *testing.T) {
	step := func(x *broken) *stepping {
		x.w.cfg.Steps = 1
		x.fact().key = x.d.key
		r := x.begins(0, 1)
		r.it.Key = x.d.key
		s := &stepping{chunk: x.both[0].chunks[0], errs: make([]error, 1)}
		s.attempt = s.chunk.attempt()
		return s
	}
	claim := func(x *broken, by int) ledger.Ticket {
		all, err := x.both[by].sess.owner.Claim(context.Background(), []ledger.Entry{{Key: x.d.key, Delivery: x.d.key.ID, Window: time.Hour}})
		if err != nil {
			return ledger.Ticket{} // the promise is not broken, then
		}
		return all[0].Ticket
	}
	one := ledger.Step{Name: "step-0", Result: []byte("one")}
	areTold(t, map[string]func(x *broken){
		"a step begins once in an attempt": func(x *broken) { s := step(x); s.begun(nil, &ledger.InvalidError{Field: "Step.Name"}) },
		"what is recorded is kept":         func(x *broken) { s := step(x); claim(x, 0); s.hasRecorded(s.run(), &one, nil) },
		"a stale token never records": func(x *broken) {
			s := step(x)
			a := ledger.NewAttempt(x.both[1].sess.owner, claim(x, 1))
			_ = a.RecordStep(context.Background(), 0, one) // the promise is not broken if it fails
			s.hasRecorded(s.run(), &one, nil)
		},
		"who has a message records its steps": func(x *broken) { s := step(x); claim(x, 0); s.hasRecorded(s.run(), &one, ledger.ErrLost) },
		"a recorded step is never run again": func(x *broken) {
			s := step(x)
			x.fact().recorded = map[string]kept{"step-0": {token: 1}}
			s.begun(nil, nil)
		},
		"what is given back of a step is recorded": func(x *broken) {
			s := step(x)
			x.fact().recorded = map[string]kept{"step-0": {result: []byte("another"), token: 1}}
			s.mustBeRecorded(&one)
		},
	})
}

// Whoever has lost a message may make a step beside its new owner: the effects of two owners may overlap.
func TestStaleStepsMayBeMade(t *testing.T) {
	t.Parallel()
	x := newBroken(t)
	r := x.begins(0, 1)
	s := &stepping{chunk: &chunk{p: x.both[0], running: []*running{r}}, errs: make([]error, 1)}
	x.fact().recorded = map[string]kept{"step-0": {token: 2}}
	s.mustBeNew()
	if x.w.broken != nil {
		t.Error(x.w.broken)
	}
}
