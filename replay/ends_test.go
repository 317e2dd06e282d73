package replay

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// failing is a source of one letter that fails where a test says, and warns.
type failing struct {
	list
	count, letters error
}

func (s *failing) Count(context.Context, *ledger.Filter) (int64, error) { return 1, s.count }
func (s *failing) Warnings() []string                                   { return []string{"it is slow"} }
func (s *failing) Letters(context.Context, *ledger.Filter) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		if yield(aLetter("body"), nil) && s.letters != nil {
			yield(nil, s.letters)
		}
	}
}

// refusing is a target that does not begin.
type refusing struct {
	taking
	begin error
}

func (t *refusing) Begin(context.Context, Begin) error { return t.begin }

// TestSourceOrTargetThatFails: their error is the run's, and what was sent before it is in the report. What they warn of is there
// in any case.
func TestSourceOrTargetThatFails(t *testing.T) {
	broken := errors.New("it is broken")
	for name, c := range map[string]struct {
		src  *failing
		dst  refusing
		sent int64
	}{
		"neither":                      {src: &failing{}, sent: 1},
		"the source cannot count":      {src: &failing{count: broken}},
		"the source ends in the midst": {src: &failing{letters: broken}, sent: 1},
		"the target does not begin":    {src: &failing{}, dst: refusing{begin: broken}},
	} {
		op := &answers{status: ledger.Status{State: ledger.Failed, Token: 1}}
		report, err := Run(t.Context(), op, c.src, &c.dst, Config{By: tester})
		if errors.Is(err, broken) != (name != "neither") || report.Replayed != c.sent || (report.Stopped == "") != (err == nil) {
			t.Errorf("%s: %v: %s", name, err, report.Text())
		}
		if !slices.Equal(report.Warnings, []string{"it is slow"}) || !strings.Contains(report.Text(), "warning: it is slow\n") {
			t.Errorf("%s: warnings %q: %s", name, report.Warnings, report.Text())
		}
	}
}

// TestDryRunSaysWhatWouldBe: and nothing is sent.
func TestDryRunSaysWhatWouldBe(t *testing.T) {
	for dry, want := range map[bool]string{true: "1 would be replayed\n", false: "1 replayed\n"} {
		src := &list{letters: []*Letter{aLetter("body")}}
		report, _, err := runList(t.Context(), t, src, &taking{}, Config{DryRun: dry})
		if text := report.Text(); err != nil || !strings.Contains(text, " "+want) || (src.done == 0) != dry {
			t.Errorf("dry %v: %d are done, %v: %s", dry, src.done, err, text)
		}
	}
}

// TestRateThatDoesNotFit: a letter whose turn comes behind the deadline is not sent, and the run says that it is left.
func TestRateThatDoesNotFit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	src := &list{letters: []*Letter{aLetter("one"), aLetter("two")}}
	report, _, err := runList(ctx, t, src, &taking{}, Config{Rate: minRate, Concurrency: 1})
	if err == nil || report.Replayed != 1 || src.done != 1 || report.Complete() {
		t.Errorf("%v, %d are done: %s", err, src.done, report.Text())
	}
}

// TestCancelledAtTheLimit: a run that was cancelled before it had sent what its limit allows is cancelled, and not at its limit.
func TestCancelledAtTheLimit(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the deploy")
	cancel(reason)
	for _, unsent := range []bool{true, false} {
		r := counting()
		r.src, r.dst = &list{}, &taking{}
		c, err := Config{By: tester}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		r.c = c
		r.unsent.Store(unsent)
		report, err := r.finish(over, errLimit)
		if errors.Is(err, reason) != unsent || errors.Is(err, ErrStopped) != unsent || errors.Is(err, errLimit) || report.Stopped == "" {
			t.Errorf("unsent %v: %v, stopped: %q", unsent, err, report.Stopped)
		}
	}
}

// renewing is a ledger that renews, or does not.
type renewing struct {
	*answers
	fails error
}

func (r renewing) Renew(context.Context, ledger.Renewal) (ledger.Renewed, error) {
	return ledger.Renewed{Token: 9, Delivery: []byte("renewed")}, r.fails
}

// TestRenewedSend: its audit names the delivery that the renewal made, which is the failure that is sent again. What is not renewed
// is not sent.
func TestRenewedSend(t *testing.T) {
	away := errors.New("the ledger is away")
	for name, c := range map[string]struct {
		fails, err error
		sent, left int64
	}{
		"renewed": {sent: 1}, "it moved on": {fails: ledger.ErrChanged, left: 1}, "it is not known": {fails: away, err: away},
	} {
		op := renewing{&answers{status: ledger.Status{State: ledger.Failed, Token: 1, Delivery: []byte("last")}}, c.fails}
		report, err := Run(t.Context(), op, &list{letters: []*Letter{aLetter("body")}}, &taking{}, Config{By: tester, FreshKeys: true})
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || report.Replayed != c.sent || report.Left != c.left {
			t.Errorf("%s: %v: %s", name, err, report.Text())
		}
		if len(op.audit) != int(c.sent) || c.sent > 0 && string(op.audit[0].Delivery) != "renewed" {
			t.Errorf("%s: audit %+v", name, op.audit)
		}
	}
}
