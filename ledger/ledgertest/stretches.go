package ledgertest

import (
	"context"
	"errors"

	"github.com/ackledger/ackledger/ledger"
)

// stretch asks for the records from <= offset < to but those of a gap, as one.
func (e *env) stretch(from, to int64, gaps ...ledger.Gap) ledger.Stretch {
	return ledger.Stretch{First: e.at(0, from, from-1), Last: to - 1, Gaps: gaps}
}

// done says that a stretch succeeded.
func (e *env) done(s ledger.Stretch, token uint64) ledger.StretchDone {
	return ledger.StretchDone{Ticket: ledger.NewTicket(s.First.Key.Sum(), token), Last: s.Last, Messages: s.Messages()}
}

// claimsOf are the claims of a stretch's messages, as if each had been claimed.
func (e *env) claimsOf(all []ledger.Entry, token uint64) (claims []ledger.Claim) {
	for _, m := range all {
		claims = append(claims, ledger.Claim{Answer: ledger.Run, Token: token, Attempt: 1, Ticket: ledger.NewTicket(m.Key.Sum(), token)})
	}
	return claims
}

func (e *env) claimStretches(o ledger.StretchOwner, s ...ledger.Stretch) []uint64 {
	e.Helper()
	tokens, err := o.ClaimStretches(e.ctx, s)
	if err != nil || len(tokens) != len(s) {
		e.Fatalf("%d tokens for %d stretches, %v", len(tokens), len(s), err)
	}
	return tokens
}

func (e *env) settleStretch(o ledger.StretchOwner, d ledger.StretchDone, want error) {
	e.Helper()
	errs, err := o.SettleStretches(e.ctx, []ledger.StretchDone{d})
	if err != nil || !errors.Is(errs[0], want) {
		e.Fatalf("%v, %v, want %v", errs, err, want)
	}
}

// rangeStretches: what is claimed and settled as one is as if each had been.
func rangeStretches(e *env) {
	joined := e.owner()
	o, other := ledger.Ungroup(joined).(ledger.StretchOwner), e.owner()
	if tokens := e.claimStretches(o, e.stretch(0, 10)); tokens[0] != 0 {
		e.answers(other, e.span(0, 10), func(int) ledger.Answer { return ledger.Busy })
		e.settleStretch(o, e.done(e.stretch(0, 10), tokens[0]), nil)
	} else {
		e.hold(o, e.allRun(o, e.span(0, 10)), succeed)
	}
	gap := ledger.Gap{From: 15, To: 18}
	first, second := e.stretch(10, 30, gap), e.stretch(30, 40)
	tokens := e.claimStretches(o, first, second, e.stretch(5, 12))
	if tokens[0] == 0 || tokens[1] <= tokens[0] || tokens[2] != 0 {
		e.Fatalf("two that are new, and one that is not: tokens %v", tokens)
	}
	e.answers(other, append(e.span(10, 15), e.span(18, 40)...), func(int) ledger.Answer { return ledger.Busy })
	for range 2 { // a settlement may be repeated
		e.settleStretch(o, e.done(first, tokens[0]), nil)
	}
	e.answers(other, append(e.span(0, 15), e.span(18, 30)...), func(int) ledger.Answer { return ledger.Done })

	parts := e.claimsOf(e.span(30, 40), tokens[1])
	e.holds(o, ledger.Settlement{Ticket: parts[4].Ticket, Kind: ledger.Release, Count: true, Fingerprint: e.at(0, 34, 33).Fingerprint})
	e.settleStretch(o, e.done(second, tokens[1]), ledger.ErrParts)
	e.answers(other, []ledger.Entry{e.at(0, 33, 32)}, func(int) ledger.Answer { return ledger.Busy })
	e.hold(o, append(parts[:4:4], parts[5:]...), succeed)
	if c := e.want(o, e.at(0, 34, 33), ledger.Run); c.Attempt != 2 {
		e.Errorf("the one that failed: %+v", c)
	}

	third := e.stretch(40, 50)
	if tokens = e.claimStretches(o, third); tokens[0] == 0 {
		tokens[0] = e.allRun(o, e.span(40, 50))[0].Token
	}
	e.declare(joined)
	e.settleStretchLost(o, e.done(third, tokens[0]))
	if _, err := o.ClaimStretches(e.ctx, []ledger.Stretch{e.stretch(50, 60)}); err != nil && !ledger.IsLost(err) {
		e.Errorf("a claim of an owner that is dead: %v", err)
	}
	for _, c := range e.allRun(other, e.span(40, 50)) {
		if c.Crashes != 1 || !c.TookOver {
			e.Errorf("taken over: %+v", c)
		}
	}
}

// rangeStretchesOfAStranger: an owner that knows nothing of a log gets nothing of it as one that another has, or that has rows.
func rangeStretchesOfAStranger(e *env) {
	first, second := ledger.Ungroup(e.owner()).(ledger.StretchOwner), ledger.Ungroup(e.owner()).(ledger.StretchOwner)
	e.allRun(first, e.span(0, 10))
	if tokens := e.claimStretches(second, e.stretch(5, 15), e.stretch(9, 10)); tokens[0] != 0 || tokens[1] != 0 {
		e.Fatalf("another has some of them: tokens %v", tokens)
	}
	e.answers(second, e.span(0, 15), func(i int) ledger.Answer { return map[bool]ledger.Answer{true: ledger.Busy, false: ledger.Run}[i < 10] })
	if tokens := e.claimStretches(first, e.stretch(10, 20)); tokens[0] != 0 {
		e.Fatalf("what was known of the log is old: tokens %v", tokens)
	}
	e.answers(first, e.span(10, 20), func(i int) ledger.Answer { return map[bool]ledger.Answer{true: ledger.Busy, false: ledger.Run}[i < 5] })

	rows := e.span(1000, 1005)
	for i := range rows {
		rows[i].Key.Pos.Epoch, rows[i].Ranged = 3, false
	}
	e.allRun(first, rows)
	for _, from := range []int64{990, 995, 1001, 1005} { // before them, over them, among them, behind them
		s := e.stretch(from, from+10)
		s.First.Key.Pos.Epoch = 3
		if tokens := e.claimStretches(second, s); tokens[0] != 0 && from > 990 {
			e.Errorf("records from %d on, beside rows: tokens %v", from, tokens)
		}
	}
	e.answers(second, rows, func(int) ledger.Answer { return ledger.Busy })
}

// rangeStretchesInTx: what transactions have settled of a stretch, batch by batch, is settled: all of it by nothing more, also
// for an owner that is dead since, and a part message by message.
func rangeStretchesInTx(e *env) {
	if e.InTx == nil {
		return
	}
	joined := e.owner()
	o, other := ledger.Ungroup(joined).(ledger.StretchOwner), e.owner()
	commit := func(token uint64, from, to int64) {
		e.Helper()
		var tickets []ledger.Ticket
		for _, c := range e.claimsOf(e.span(from, to), token) {
			tickets = append(tickets, c.Ticket)
		}
		ctx := ledger.WithAttempt(e.ctx, ledger.NewBatchAttempt(joined, tickets))
		if err := e.InTx(ctx, func(context.Context) error { return nil }); err != nil {
			e.Fatalf("InTx of %d to %d: %v", from, to, err)
		}
	}
	done := func(from, to int64) {
		e.Helper()
		e.answers(other, e.span(from, to), func(int) ledger.Answer { return ledger.Done })
	}
	e.hold(o, e.allRun(o, e.span(0, 10)), succeed)
	first, second, third := e.stretch(10, 40), e.stretch(40, 60), e.stretch(60, 80)
	tokens := e.claimStretches(o, first, second, third)
	commit(tokens[0], 10, 20)
	e.answers(other, e.span(20, 40), func(int) ledger.Answer { return ledger.Busy })
	commit(tokens[0], 20, 40)
	for range 2 {
		e.settleStretch(o, e.done(first, tokens[0]), nil)
	}
	done(10, 40)

	commit(tokens[1], 40, 50)
	e.settleStretch(o, e.done(second, tokens[1]), ledger.ErrParts)
	e.hold(o, e.claimsOf(e.span(40, 60), tokens[1]), succeed) // half of them for the second time
	done(40, 60)
	e.hold(o, e.allRun(o, e.span(80, 90)), succeed)
	if _, err := joined.Beat(e.ctx); err != nil { // what is over is one by then
		e.Fatal(err)
	}
	e.wantOne(0, 60)

	commit(tokens[2], 60, 80)
	e.declare(joined)
	e.settleStretch(o, e.done(third, tokens[2]), nil)
	done(60, 80)
}

// settleStretchLost expects ErrLost, of the call or of the stretch.
func (e *env) settleStretchLost(o ledger.StretchOwner, d ledger.StretchDone) {
	e.Helper()
	errs, err := o.SettleStretches(e.ctx, []ledger.StretchDone{d})
	if err == nil {
		err = errs[0]
	}
	if !ledger.IsLost(err) {
		e.Fatalf("settled by an owner that is dead: %v", err)
	}
}
