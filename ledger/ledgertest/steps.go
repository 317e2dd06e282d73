package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// stepCases are the rules of steps: what is recorded, under which guard, who is given it back, and when it goes.
var stepCases = []testCase{
	{"Recorded", stepsRecorded},
	{"FirstStays", stepsFirstStays},
	{"Guard", stepsGuard},
	{"TakenOver", stepsTakenOver},
	{"ThenSettled", stepsThenSettled},
	{"InOneCall", stepsInOneCall},
	{"AmongNeighbours", stepsAmongNeighbours},
	{"InTx", stepsInTx},
	{"Redriven", stepsRedriven},
	{"WindowOver", stepsWindowOver},
	{"Invalid", stepsInvalid},
	{"AnswerLost", stepsAnswerLost},
	{"Many", stepsMany},
	{"Race", stepsRace},
}

// RunSteps is the suite of steps, of stores whose owners are [ledger.StepReader], on rows and on messages that are held in ranges.
func RunSteps(t *testing.T, open Open) {
	for name, open := range map[string]Open{"Rows": open, "Ranges": Ranged(open)} {
		for _, c := range stepCases {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(begin(t, open))
			})
		}
	}
}

// RunStepsOperate is what operators do to steps. It takes an operator's rights.
func RunStepsOperate(t *testing.T, open Open) {
	for name, open := range map[string]Open{"Rows": open, "Ranges": Ranged(open)} {
		for _, c := range []testCase{{"Reopened", stepsReopened}, {"FreshKeys", stepsFreshKeys}} {
			t.Run(name+"/"+c.name, func(t *testing.T) { c.run(begin(t, open)) })
		}
	}
}

// recordStep is a settlement that records one, with a result of its name.
func recordStep(c ledger.Claim, name string) ledger.Settlement {
	return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.RecordStep, Step: &ledger.Step{Name: name, Result: []byte("result of " + name)}}
}

func (e *env) steps(o ledger.Owner, c ledger.Claim) []ledger.Step {
	e.Helper()
	list, err := ledger.ReadSteps(e.ctx, o, c.Ticket)
	if err != nil {
		e.Fatalf("steps: %v", err)
	}
	return list
}

// wantSteps checks which steps are given back to a claim, in any order, and what the record of the message says of them.
func (e *env) wantSteps(o ledger.Owner, m ledger.Entry, c ledger.Claim, names ...string) {
	e.Helper()
	var got, shown []string
	for _, s := range e.steps(o, c) {
		if string(s.Result) != "result of "+s.Name || s.At.IsZero() || s.Failed {
			e.Fatalf("step: %+v", s)
		}
		got = append(got, s.Name)
	}
	for _, s := range e.record(m).Steps {
		if s.Result != nil || s.Size != len("result of "+s.Name) {
			e.Fatalf("step of the record: %+v", s)
		}
		shown = append(shown, s.Name)
	}
	slices.Sort(names)
	slices.Sort(got)
	slices.Sort(shown)
	if !slices.Equal(got, names) || !slices.Equal(shown, names) {
		e.Fatalf("steps %q, of the record %q, want %q", got, shown, names)
	}
}

func stepsRecorded(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	if list := e.steps(o, c); len(list) != 0 {
		e.Fatalf("steps of a new message: %+v", list)
	}
	s := recordStep(c, "name@v2")
	s.Step.Result = []byte{0, 255}
	e.holds(o, s)
	s = recordStep(c, "ünë")
	s.Step.Result, s.Step.Failed = nil, true
	e.holds(o, s)
	list := e.steps(o, c)
	if len(list) != 2 || list[0].Name != "name@v2" || string(list[0].Result) != "\x00\xff" || list[0].Failed ||
		list[1].Name != "ünë" || list[1].Result == nil || len(list[1].Result) != 0 || !list[1].Failed || list[1].At.Before(list[0].At) {
		e.Fatalf("steps: %+v", list)
	}
	if r := e.record(m); r.State != ledger.Pending || r.Owner != o.ID() || r.Token != c.Token || r.Attempts != 0 {
		e.Fatalf("the message is not as it was: %s", summary(r))
	}
	other := e.entry("b")
	e.wantSteps(o, other, e.want(o, other, ledger.Run))
}

func stepsFirstStays(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, recordStep(c, "charge"))
	s := recordStep(c, "charge")
	s.Step.Result, s.Step.Failed = []byte("another"), true
	e.holds(o, s)
	e.wantSteps(o, m, c, "charge")
}

func stepsGuard(e *env) {
	o, other := e.owner(), e.owner()
	m := e.entry("a")
	first := e.want(o, m, ledger.Run)
	e.lost(other, recordStep(first, "others"))
	e.holds(o, failedAttempt(first, "again"))
	e.lost(o, recordStep(first, "released"))
	second := e.want(o, m, ledger.Run)
	e.lost(o, recordStep(first, "old-token"))
	e.wantSteps(o, m, second)
	e.holds(o, succeed(second))
	e.lost(o, recordStep(second, "succeeded"))
	plain := e.entry("p")
	c := e.want(o, plain, ledger.Run)
	e.holds(o, succeed(c))
	e.lost(o, recordStep(c, "succeeded-at-once"))
	failed := e.entry("f")
	c = e.want(o, failed, ledger.Run)
	e.holds(o, fail(c, failed))
	e.lost(o, recordStep(c, "failed"))
	back := e.entry("r")
	c = e.want(o, back, ledger.Run)
	e.holds(o, release(c))
	e.lost(o, recordStep(c, "given-back"))
	never := e.entry("never")
	e.lost(o, recordStep(ledger.Claim{Ticket: ledger.NewTicket(never.Key.Sum(), 1)}, "no-row"))
}

func stepsTakenOver(e *env) {
	dead, o := e.owner(), e.owner()
	m := e.entry("a")
	c := e.want(dead, m, ledger.Run)
	e.holds(dead, recordStep(c, "charge"))
	e.declare(dead)
	took := e.want(o, m, ledger.Run)
	e.wantSteps(o, m, took, "charge")
	e.lost(dead, recordStep(c, "late"))
	e.holds(o, recordStep(took, "ship"))
	e.wantSteps(o, m, took, "charge", "ship")
	e.holds(o, succeed(took))
	e.want(o, m, ledger.Done)
}

// stepsThenSettled: a recorded step takes nothing from how a claim may end, also where the message has left its range for it.
func stepsThenSettled(e *env) {
	o := e.owner()
	for _, m := range e.entries(3) {
		c := e.want(o, m, ledger.Run)
		e.holds(o, recordStep(c, "charge"))
		s := succeed(c)
		switch m.Delivery[len("message-")] {
		case '1':
			s = failedAttempt(c, "later")
		case '2':
			s = fail(c, m)
		}
		e.holds(o, s)
		e.holds(o, s)
		e.lost(o, recordStep(c, "late"))
		switch r := e.record(m); s.Kind {
		case ledger.Succeed:
			e.want(o, m, ledger.Done)
		case ledger.Fail:
			if r.State != ledger.Failed || len(r.Archived) != 1 {
				e.Fatalf("failed: %s", summary(r))
			}
		default:
			e.wantSteps(o, m, e.want(o, m, ledger.Run), "charge")
		}
	}
}

func stepsInOneCall(e *env) {
	o := e.owner()
	entries := e.entries(2)
	a, b := e.want(o, entries[0], ledger.Run), e.want(o, entries[1], ledger.Run)
	again := recordStep(a, "1")
	again.Step.Result = []byte("another")
	errs := e.settleAll(o, []ledger.Settlement{recordStep(a, "1"), recordStep(b, "1"), recordStep(a, "2"), again, succeed(b), recordStep(b, "late")})
	for i, err := range errs {
		if late := i == 5; late != ledger.IsLost(err) || !late && err != nil {
			e.Fatalf("settlement %d: %v", i, err)
		}
	}
	e.wantSteps(o, entries[0], a, "1", "2")
	e.want(o, entries[1], ledger.Done)
}

// stepsAmongNeighbours: of messages that are held as one the one that has a step leaves the others as they are.
func stepsAmongNeighbours(e *env) {
	o := e.owner()
	entries := e.entries(3)
	claims := e.claimAll(o, entries)
	e.holds(o, recordStep(claims[1], "charge"))
	e.wantSteps(o, entries[1], claims[1], "charge")
	for i, c := range claims {
		if i != 1 && len(e.steps(o, c)) != 0 {
			e.Fatalf("a neighbour has steps")
		}
		e.holds(o, succeed(c))
		e.want(o, entries[i], ledger.Done)
	}
}

func stepsInTx(e *env) {
	if e.InTx == nil {
		e.Log("this store has no InTx")
		return
	}
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, recordStep(c, "charge"))
	ctx, a := e.attempt(o, c)
	if err := e.InTx(ctx, e.effect(m)); err != nil {
		e.Fatalf("InTx after a step: %v", err)
	}
	if state, err := a.State(); state != ledger.AttemptSucceeded || err != nil {
		e.Fatalf("state %v, %v", state, err)
	}
	e.lost(o, recordStep(c, "late"))
	e.want(o, m, ledger.Done)
	e.wantEffects(m, 1)
}

// stepsRedriven: what failed for good and comes again keeps what it had done.
func stepsRedriven(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, recordStep(c, "charge"))
	e.holds(o, fail(c, m))
	m.Delivery = []byte("a#2")
	e.wantSteps(o, m, e.want(o, m, ledger.Run), "charge")
}

func stepsWindowOver(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, recordStep(c, "charge"))
	e.holds(o, succeed(c))
	if err := e.Drop(e.ctx, m.Key); err != nil {
		e.Fatal(err)
	}
	e.wantSteps(o, m, e.inRow(o, m))
}

func stepsInvalid(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	var all []ledger.Settlement
	fields := []string{"", "Step.Name", "Step.Name", "Step.Name", "Step.Name", "Step.Result", "Settlement.Step", ""}
	for i, name := range []string{"good", "", strings.Repeat("x", ledger.MaxStepName+1), "with space", "\xff", "large", "none", "largest"} {
		s := recordStep(c, name)
		switch i {
		case 5:
			s.Step.Result = make([]byte, ledger.MaxStepResult+1)
		case 6:
			s.Step = nil
		case 7:
			s.Step.Name, s.Step.Result = strings.Repeat("ü", ledger.MaxStepName/2), make([]byte, ledger.MaxStepResult)
		}
		all = append(all, s)
	}
	for i, err := range e.settleAll(o, all) {
		if fields[i] != "" {
			e.invalid(err, fields[i])
		} else if err != nil {
			e.Fatalf("step %d: %v", i, err)
		}
	}
	list := e.steps(o, c)
	if len(list) != 2 || len(list[0].Result)+len(list[1].Result) != ledger.MaxStepResult+len("result of good") {
		e.Fatalf("%d steps", len(list))
	}
}

// stepsAnswerLost: a record whose answer is not known is repeated, and holds once.
func stepsAnswerLost(e *env) {
	if e.Lose == nil {
		e.Log("this store's own tests lose answers")
		return
	}
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.Lose(true)
	errs, err := o.Settle(e.ctx, []ledger.Settlement{recordStep(c, "charge")})
	e.Lose(false)
	if !ledger.Unknown(err) {
		e.Fatalf("a lost answer: %v, %v", errs, err)
	}
	e.holds(o, recordStep(c, "charge"))
	e.wantSteps(o, m, c, "charge")
	e.holds(o, succeed(c))
	e.want(o, m, ledger.Done)
}

func stepsMany(e *env) {
	o := e.owner()
	entries := e.entries(20)
	claims := e.claimAll(o, entries)
	var all []ledger.Settlement
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("step-", i))
		for _, c := range claims {
			all = append(all, recordStep(c, names[i]))
		}
	}
	for i, err := range e.settleAll(o, all) {
		if err != nil {
			e.Fatalf("settlement %d: %v", i, err)
		}
	}
	for i, m := range entries {
		e.wantSteps(o, m, claims[i], names...)
	}
}

// stepsRace: a take-over meets an owner that goes on recording. What was recorded is given back to who took over, and nothing is
// recorded behind its back.
func stepsRace(e *env) {
	for round := range e.rounds(8) {
		stale, o := e.owner(), e.owner()
		m := e.entry(fmt.Sprint("race-", round))
		c := e.want(stale, m, ledger.Run)
		e.holds(stale, recordStep(c, "0"))
		recorded := []string{"0"}
		begun := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			close(begun)
			for n := 1; n < ledger.MaxSteps; n++ {
				name := fmt.Sprint(n)
				err := e.settle(stale, recordStep(c, name))
				if ledger.IsLost(err) {
					return
				}
				if err == nil {
					recorded = append(recorded, name)
				}
			}
		})
		<-begun
		e.declare(stale)
		var took ledger.Claim
		e.eventually("the take-over", func() bool {
			took = e.claim(o, m)
			return took.Answer == ledger.Run
		})
		seen := e.steps(o, took)
		wg.Wait()
		e.wantSteps(o, m, took, recorded...)
		if len(seen) != len(recorded) {
			e.Fatalf("%d steps were given back, %d are recorded", len(seen), len(recorded))
		}
	}
}

func stepsReopened(e *env) {
	o := e.owner()
	for i, fresh := range []bool{false, true} {
		if fresh && e.Ranged { // refused: a generation needs a row
			continue
		}
		m := e.entry(fmt.Sprint("reopened-", i))
		c := e.want(o, m, ledger.Run)
		e.holds(o, recordStep(c, "charge"))
		e.holds(o, succeed(c))
		if r := e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{IDs: [][]byte{m.Key.ID}}, FreshKeys: fresh}); r.Reopened != 1 {
			e.Fatalf("reopened %d", r.Reopened)
		}
		e.wantSteps(o, m, e.want(o, m, ledger.Run))
	}
}

func stepsFreshKeys(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, recordStep(c, "charge"))
	e.holds(o, fail(c, m))
	r, err := e.op().Renew(e.ctx, ledger.Renewal{Key: m.Key, Token: c.Token, By: by})
	if err != nil {
		e.Fatal(err)
	}
	m.Delivery, m.StampToken = []byte("a#2"), r.Token
	e.wantSteps(o, m, e.want(o, m, ledger.Run))
}
