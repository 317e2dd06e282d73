package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// rangesFailedStays: the row of a message that failed for good went with its archived delivery, and the segment around it
// said that it had succeeded, so that a dead letter that was kept for longer was dropped as done.
func rangesFailedStays(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	m := e.at(0, 0, -1)
	m.Window = shortWindow
	dead := fail(e.want(o, m, ledger.Run), m)
	dead.Dead.Keep = shortWindow
	e.holds(o, dead)
	e.hold(o, e.allRun(o, e.span(1, 20)), succeed)
	e.pass(2 * shortWindow)
	for range 2 { // the archive, then what depends on it
		e.sweep(time.Millisecond)
	}
	r, err := e.Get(e.ctx, m.Key)
	if err != nil || r.State != ledger.Failed || len(r.Archived) != 0 {
		e.Fatalf("a failed message whose archived delivery has expired: %s, %d archived, %v", summary(r), len(r.Archived), err)
	}
	if s := e.scopeStats(); s.Failed != 1 || s.Succeeded != 19 {
		e.Errorf("%+v", s)
	}
	again := m
	again.Ranged, again.StampToken, again.Delivery = false, dead.Ticket.Token(), []byte("from a dead-letter topic")
	e.holds(o, succeed(e.want(o, again, ledger.Run)))
}

// rangesReopenedToken: a message that was retried had a row with a higher token than any range of its log. The row went once
// it had succeeded; reopened, the message ran with a lower token than its first time, so that an effect that is fenced by the
// token was refused, or the old holder's let through.
func rangesReopenedToken(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	m := e.at(0, 0, -1)
	m.Window = shortWindow
	for range 5 {
		e.holds(o, failedAttempt(e.want(o, m, ledger.Run), "not yet"))
	}
	last := e.want(o, m, ledger.Run)
	e.holds(o, succeed(last))
	e.hold(o, e.allRun(o, e.span(1, 20)), succeed)
	e.pass(2 * shortWindow)
	e.sweep(time.Millisecond)
	if r := e.record(m); r.In == nil || r.State != ledger.Succeeded {
		e.Fatalf("its row is there still, or nothing is: %s", summary(r))
	}
	if r := e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{IDs: [][]byte{m.Key.ID}}}); r.Reopened != 1 {
		e.Fatalf("reopened: %+v", r)
	}
	if again := e.want(o, m, ledger.Run); again.Token <= last.Token {
		e.Errorf("token %d, and %d before it was reopened", again.Token, last.Token)
	}
}

// rangesDroppedToken: what was claimed of a log and given back leaves nothing, and a sweep drops the log. Made anew it began
// with token 1 again, so that an effect that is fenced by the token was refused, or the old holder's let through.
func rangesDroppedToken(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	last := uint64(0) // the highest of both logs
	for range 3 {
		highest := last
		for range 2 {
			for epoch := range int32(2) {
				c := e.want(o, e.at(epoch, 0, -1), ledger.Run)
				if c.Token <= last {
					e.Errorf("epoch %d: token %d, and %d before the logs were dropped", epoch, c.Token, last)
				}
				highest = max(highest, c.Token)
				e.holds(o, release(c))
			}
		}
		last = highest
		e.sweep(time.Millisecond)
	}
}

// rangesTokenBetweenRows: a log that was dropped, but for rows that were left, was bound to rows from the first of them to the
// last when it was made anew, and what lay between them began with token 1 again.
func rangesTokenBetweenRows(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	all := e.span(0, 5)
	for i := range all {
		all[i].Window = shortWindow
	}
	first := e.allRun(o, all)
	for i, err := range e.settleAll(o, []ledger.Settlement{
		failedAttempt(first[0], "not yet"), release(first[1]), succeed(first[2]), succeed(first[3]), failedAttempt(first[4], "not yet"),
	}) {
		if err != nil {
			e.Fatalf("settlement %d: %v", i, err)
		}
	}
	e.pass(2 * shortWindow)
	e.sweep(keep)
	for i := 1; i < 4; i++ { // in calls of their own: what an owner knows of a log counts from the second on
		if c := e.want(o, all[i], ledger.Run); c.Token <= first[i].Token {
			e.Errorf("offset %d: token %d, and %d before the log was dropped", i, c.Token, first[i].Token)
		}
	}
}

// rangesRedrivenStays: the row of a message that failed, and succeeded when it was sent again, stays for its window, however
// its success is written: its copy may come again when the segment around it has been cut off.
func rangesRedrivenStays(e *env) {
	o := e.owner()
	commit := func(claims []ledger.Claim) {
		var tickets []ledger.Ticket
		for _, c := range claims {
			tickets = append(tickets, c.Ticket)
		}
		ctx := ledger.WithAttempt(e.ctx, ledger.NewBatchAttempt(o, tickets))
		if err := e.InTx(ctx, func(context.Context) error { return nil }); err != nil {
			e.Fatalf("InTx of %d: %v", len(claims), err)
		}
	}
	ways := map[string]func([]ledger.Claim){
		"successes": func(claims []ledger.Claim) { e.hold(o, claims, succeed) },
		"one among others": func(claims []ledger.Claim) {
			for i, err := range e.settleAll(o, []ledger.Settlement{succeed(claims[0]), release(claims[1])}) {
				if err != nil {
					e.Fatalf("settlement %d: %v", i, err)
				}
			}
		},
	}
	if e.InTx != nil {
		ways["InTx of a batch"] = commit
		ways["InTx"] = func(claims []ledger.Claim) {
			ctx, _ := e.attempt(o, claims[0])
			if err := e.InTx(ctx, func(context.Context) error { return nil }); err != nil {
				e.Fatalf("InTx: %v", err)
			}
		}
	}
	from := int64(0)
	for name, finish := range ways {
		all := e.span(from, from+2)
		for i, c := range e.allRun(o, all) {
			dead := fail(c, all[i])
			dead.Dead.Keep = 2 * window
			e.holds(o, dead)
			all[i].Ranged, all[i].StampToken, all[i].Delivery = false, c.Token, append([]byte("copy of "), all[i].Delivery...)
		}
		finish(e.allRun(o, all))
		r := e.record(all[0])
		if left := time.Until(r.Expiry); r.State != ledger.Succeeded || left < window/2 {
			e.Errorf("%s: %s; it goes in %s, its window is %s", name, summary(r), left, window)
		}
		from += 100
	}
}
