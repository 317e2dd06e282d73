package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of steps.
const (
	// MaxStepName is the longest name of a step, in bytes.
	MaxStepName = 128
	// MaxStepResult is the longest result of a step, in bytes.
	MaxStepResult = 64 << 10
	// MaxSteps is how many steps of a message an attempt may know, recorded ones and its own together.
	MaxSteps = 100
)

// Step is what the ledger keeps of one outside call of a message: its result, or that it failed for good. A message's steps live as
// long as its row. They go when it is reopened, and when its generation grows (Renew, or a Reopen with fresh keys).
type Step struct {
	Name   string // 1 to MaxStepName bytes of visible characters; unique within a message
	Result []byte // what came of it, or the text of its failure: at most MaxStepResult bytes. Nil is stored as empty
	Failed bool   // it failed for good
	At     time.Time
	Size   int // with a [Record]: the length of a result that is not in it
}

// StepReader is an [Owner] whose ledger keeps steps. Steps may be called concurrently.
type StepReader interface {
	// Steps returns what is recorded of the steps of a message that this owner has claimed, in the order in which they were
	// recorded. Called after the claim it returns all that attempts before it have recorded: nobody with an older token records
	// any more. A ctx without a deadline gets one of 10 s.
	Steps(ctx context.Context, ticket Ticket) ([]Step, error)
}

// ErrNoSteps says that the ledger of an attempt keeps no steps ([StepReader]).
var ErrNoSteps = errors.New("ledger: this ledger keeps no steps")

// ErrStepInTx says that a step began inside of InTx. What is recorded there would stay if the transaction rolled back, and a ledger
// with one writer (SQLite) could not record it before the transaction has ended.
var ErrStepInTx = errors.New("ledger: a step inside of InTx: call it before the transaction, or after it was rolled back")

// Check refuses a step that no ledger can hold, with an [*InvalidError].
func (s *Step) Check() error {
	if len(s.Result) > MaxStepResult {
		return invalidLen("Step.Result", 0, MaxStepResult, len(s.Result))
	}
	return checkStepName(s.Name)
}

// checkStepName refuses what cannot be the name of a step.
func checkStepName(name string) error {
	if len(name) == 0 || len(name) > MaxStepName {
		return invalidLen("Step.Name", 1, MaxStepName, len(name))
	}
	for _, r := range name {
		if !utf8.ValidString(name) || !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return &InvalidError{Field: "Step.Name", Bound: "UTF-8 of visible characters alone", Value: strconv.Quote(name)}
		}
	}
	return nil
}

// Clone returns a deep copy, which shares no bytes with s.
func (s *Step) Clone() Step {
	out := *s
	out.Result = bytes.Clone(s.Result)
	return out
}

// stepper is what an attempt knows of the steps of one message.
type stepper struct {
	mu    sync.Mutex
	read  bool
	known map[string]Step
	begun map[string]struct{} // in this attempt
}

// BeginStep begins a step of the message of Tickets()[i], and returns what is recorded of it; nil: it is to be done. The first
// call of an attempt asks the ledger, unless the message was never claimed before.
//
// Errors: an [*InvalidError] for a bad index or name, for a name that this attempt has begun already, and for more than MaxSteps
// steps; [ErrSettled] once the attempt is over or its transaction has committed, [ErrStepInTx] inside of it; [ErrNoSteps]; and the
// ledger's own, with nothing begun.
func (a *Attempt) BeginStep(ctx context.Context, i int, name string) (*Step, error) {
	if err := checkStepName(name); err != nil {
		return nil, err
	}
	s, err := a.stepper(i)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx, a, a.Tickets()[i]); err != nil {
		return nil, err
	}
	if _, again := s.begun[name]; again {
		return nil, &InvalidError{Field: "Step.Name", Bound: "a name that the attempt has not used", Value: strconv.Quote(name)}
	}
	known, is := s.known[name]
	if n := len(s.known) + len(s.begun); !is && n >= MaxSteps {
		return nil, &InvalidError{Field: "the steps of a message", Bound: fmt.Sprintf("at most %d", MaxSteps), Value: strconv.Itoa(n + 1)}
	}
	if !is {
		s.begun[name] = struct{}{}
		return nil, nil
	}
	delete(s.known, name) // counted as begun from now on
	s.begun[name] = struct{}{}
	return &known, nil
}

// stepper is where the steps of a message are noted, if a step may begin now.
func (a *Attempt) stepper(i int) (*stepper, error) {
	n := len(a.Tickets())
	if i < 0 || i >= n {
		return nil, &InvalidError{Field: "BeginStep: the index", Bound: fmt.Sprintf("0 to %d", n-1), Value: strconv.Itoa(i)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.state == AttemptRunning:
		return nil, ErrStepInTx
	case a.over || a.state != AttemptOpen:
		return nil, ErrSettled
	}
	steps := a.rarely().steps
	if steps[i] == nil {
		steps[i] = &stepper{begun: map[string]struct{}{}}
	}
	return steps[i], nil
}

// load asks the ledger, once, what is recorded. A first claim has nothing to find. A batch may have run before under the same claims:
// what spoils it has each of its messages run once more.
func (s *stepper) load(ctx context.Context, a *Attempt, t Ticket) error {
	if s.read {
		return nil
	}
	s.known = map[string]Step{}
	if t.Token() > 1 || a.batch != nil {
		list, err := ReadSteps(ctx, a.owner, t)
		if err != nil {
			return err
		}
		for _, one := range list {
			s.known[one.Name] = one
		}
	}
	s.read = true
	return nil
}

// ReadSteps asks an owner, or the nearest of those beneath it ([Unwrap]) that is a [StepReader], what is recorded of a message that it
// has claimed. [ErrNoSteps] if there is none.
func ReadSteps(ctx context.Context, o Owner, t Ticket) ([]Step, error) {
	for {
		if r, ok := o.(StepReader); ok {
			return r.Steps(ctx, t)
		}
		below, ok := o.(interface{ Unwrap() Owner })
		if !ok {
			return nil, ErrNoSteps
		}
		o = below.Unwrap()
	}
}

// RecordStep records a step of the message of Tickets()[i] in one call of the owner. Errors are those of [Owner].Settle for one
// settlement: [ErrLost] if the message is not the attempt's any more; what is neither that nor an [*InvalidError] may be repeated.
func (a *Attempt) RecordStep(ctx context.Context, i int, s Step) error {
	errs, err := a.owner.Settle(ctx, []Settlement{{Ticket: a.Tickets()[i], Kind: RecordStep, Step: &s}})
	if err != nil {
		return err
	}
	return errs[0]
}
