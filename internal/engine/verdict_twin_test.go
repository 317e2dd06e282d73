package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// handlerEnd is how a handler ended, in the words of the rules.
type handlerEnd struct {
	name                               string
	err                                error
	terminal, fromContext, namesAPause bool
	snoozed                            bool
}

// twinVerdict is the dumb version of [policy.decide]: the rules as one would tell them, each with all that must hold for it,
// in any order. It answers with a name.
func twinVerdict(e handlerEnd, state ledger.AttemptState, cause error, outage bool, attempt, limit int, pause, left time.Duration) string {
	byUs := cause != nil && !errors.Is(cause, consumer.ErrTimeout)
	known := state == ledger.AttemptOpen || state == ledger.AttemptRunning
	own := known && e.err != nil && (!byUs || e.terminal && !e.fromContext) && !outage // the handler's own failure
	rules := map[string]bool{
		"acknowledge": state == ledger.AttemptSucceeded,
		"ask":         state == ledger.AttemptLost || state == ledger.AttemptUnknown || state == ledger.AttemptRunning && e.err == nil,
		"succeed":     state == ledger.AttemptOpen && e.err == nil,
		"give back":   known && e.err != nil && byUs && (!e.terminal || e.fromContext),
		"outage":      known && e.err != nil && outage && (!byUs || e.terminal && !e.fromContext),
		"terminal":    own && e.terminal,
		"exhausted":   own && !e.terminal && !e.snoozed && attempt >= limit,
		"deadline":    own && !e.terminal && (e.snoozed || attempt < limit) && left > 0 && pause >= left,
		"again":       own && !e.terminal && !e.snoozed && attempt < limit && (left <= 0 || pause < left),
		"snoozed":     own && !e.terminal && e.snoozed && (left <= 0 || pause < left),
	}
	found := ""
	for name, holds := range rules {
		if holds {
			found += name // two of them would be a name that nobody knows
		}
	}
	return found
}

// verdictName names what was decided, and checks that nothing else was.
func verdictName(s step, outagePause time.Duration) string {
	for name, want := range map[string]step{
		"acknowledge": {ack: true},
		"ask":         {ask: true},
		"succeed":     {settle: ledger.Succeed},
		"give back":   {settle: ledger.Release},
		"outage":      {settle: ledger.Release, after: outagePause},
		"terminal":    {settle: ledger.Fail, kind: ledger.KindTerminal},
		"exhausted":   {settle: ledger.Fail, kind: ledger.KindExhausted},
		"deadline":    {settle: ledger.Fail, kind: ledger.KindDeadline},
	} {
		if s == want {
			return name
		}
	}
	switch s {
	case step{settle: ledger.Release, after: s.after, count: true}:
		return "again"
	case step{settle: ledger.Release, after: s.after}:
		return "snoozed"
	}
	return fmt.Sprintf("%+v", s)
}

// TestVerdictsAgainstTheirTwin goes through every way in which a handler, its transaction and its context can end.
func TestVerdictsAgainstTheirTwin(t *testing.T) {
	const limit = 3
	p := policy{attempts: limit, backoff: backoff.Policy{Base: time.Second, Max: time.Minute}}
	ends := []handlerEnd{
		{name: "nil"},
		{name: "error", err: errBoom},
		{name: "terminal", err: consumer.Terminal(errBoom), terminal: true},
		{name: "terminal, of the context", err: consumer.Terminal(ledger.ErrLost), terminal: true, fromContext: true},
		{name: "of the context", err: consumer.ErrShutdown, fromContext: true},
		{name: "names its pause", err: consumer.RetryAfter(errBoom, 7*time.Second), namesAPause: true},
		{name: "snoozed", err: fmt.Errorf("too early: %w", consumer.Snooze(7*time.Second)), namesAPause: true, snoozed: true},
	}
	states := []ledger.AttemptState{ledger.AttemptOpen, ledger.AttemptRunning, ledger.AttemptSucceeded, ledger.AttemptLost, ledger.AttemptUnknown}
	causes := []error{nil, ledger.ErrLost, consumer.ErrRevoked, consumer.ErrShutdown, consumer.ErrTimeout}
	lefts := []time.Duration{-time.Hour, 0, 1, time.Second, 7 * time.Second, time.Hour}
	for _, e := range ends {
		for _, state := range states {
			for _, cause := range causes {
				for attempt := 1; attempt <= limit+1; attempt++ {
					for _, left := range lefts {
						for _, outage := range []bool{false, true} {
							const draw = 0.5
							pause := p.backoff.Delay(attempt, draw)
							if e.namesAPause {
								pause = 7 * time.Second
							}
							got := p.decide(outcome{err: e.err, cause: cause, state: state, outage: outage}, attempt, draw, left)
							want := twinVerdict(e, state, cause, outage, attempt, limit, pause, left)
							if name := verdictName(got, p.backoff.Ceiling(1)); name != want || name == "again" && got.after != pause {
								t.Errorf("%s, transaction %d, cause %v, attempt %d, %s left, outage %t: %s after %s, want %s after %s",
									e.name, state, cause, attempt, left, outage, name, got.after, want, pause)
							}
						}
					}
				}
			}
		}
	}
}
