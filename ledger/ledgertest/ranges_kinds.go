package ledgertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/ackledger/ackledger/ledger"
)

// rangeBothKinds: workers with a row for each message and workers with ranges share a group: each message succeeds once.
func rangeBothKinds(e *env) {
	const messages, workers = 120, 4
	all := e.span(1000, 1000+messages)
	var succeeded, holders [messages]atomic.Int32
	var wg sync.WaitGroup
	for w := range workers {
		o := e.owner()
		mine := make([]ledger.Entry, messages)
		for i, m := range all {
			m.Ranged = w%2 == 0
			mine[i] = m
		}
		wg.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(w), 11))
			for done := 0; done < messages && e.ctx.Err() == nil && !e.Failed(); {
				done = raceOnce(e, o, mine, chance, succeeded[:], holders[:])
			}
		})
	}
	wg.Wait()
	for i := range all {
		if n := succeeded[i].Load(); n != 1 {
			e.Fatalf("message %d succeeded %d times", i, n)
		}
	}
}

// rangeSwitch: a group goes from ranges to rows and back while messages are under way: nothing is lost or repeated.
func rangeSwitch(e *env) {
	kind := func(from, to int64, ranged bool) []ledger.Entry {
		all := e.span(from, to)
		for i := range all {
			all[i].Ranged = ranged
		}
		return all
	}
	a, b := e.owner(), e.owner()
	first := e.allRun(a, kind(0, 40, true))
	e.hold(a, first[:10], succeed)
	e.hold(a, first[30:], release)
	rows := e.allRun(b, kind(30, 80, false)) // the new kind has what was given back, and what comes then
	if rows[0].Token <= first[30].Token {
		e.Fatalf("token %d, was %d", rows[0].Token, first[30].Token)
	}
	e.answers(b, kind(0, 30, false), func(i int) ledger.Answer {
		if i < 10 {
			return ledger.Done
		}
		return ledger.Busy
	})
	e.declare(a)
	e.hold(b, e.allRun(b, kind(10, 30, false)), succeed)
	e.hold(b, rows[:20], succeed)
	e.hold(b, rows[20:30], release)
	c := e.owner()
	e.answers(c, kind(0, 100, true), func(i int) ledger.Answer { // and back
		switch {
		case i < 50:
			return ledger.Done
		case i < 60 || i >= 80:
			return ledger.Run
		}
		return ledger.Busy
	})
	e.hold(b, rows[30:], succeed)
	for i := range int64(80) {
		if r := e.record(e.at(0, i, i-1)); (r.State == ledger.Succeeded) != (i < 50 || i >= 60) {
			e.Fatalf("offset %d: %s", i, summary(r))
		}
	}
}

// rangeCommits: handlers of one range commit at once, each its own message.
func rangeCommits(e *env) {
	if e.InTx == nil {
		return
	}
	o, b := e.owner(), e.owner()
	all := e.span(0, 12)
	claims := e.allRun(o, all)
	var wg sync.WaitGroup
	for i, c := range claims {
		wg.Go(func() {
			ctx, a := e.attempt(o, c)
			err := e.InTx(ctx, func(ctx context.Context) error {
				if i%4 == 0 {
					if err := a.SetResult([]byte("receipt")); err != nil {
						return err
					}
				}
				return e.Effect(ctx, all[i].Key.String())
			})
			if err != nil {
				e.Errorf("InTx %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i, c := range e.answers(b, all, func(int) ledger.Answer { return ledger.Done }) {
		if want := i%4 == 0; (string(c.Outcome.Result) == "receipt") != want {
			e.Fatalf("message %d: %+v", i, c.Outcome)
		}
		e.wantEffects(all[i], 1)
	}
}

// rangeCommitTaken: a batch's transaction against the take-over of its range: all of its effects and successes, or none.
func rangeCommitTaken(e *env) {
	if e.InTx == nil {
		return
	}
	for round := range int64(5) {
		a, b := e.owner(), e.owner()
		all := e.span(round*100, round*100+6)
		claims := e.allRun(a, all)
		tickets := make([]ledger.Ticket, len(claims))
		for i, c := range claims {
			tickets[i] = c.Ticket
		}
		e.declare(a)
		attempt := ledger.NewBatchAttempt(a, tickets)
		var errTx, errB error
		var taken []ledger.Claim
		var wg sync.WaitGroup
		wg.Go(func() {
			errTx = e.InTx(ledger.WithAttempt(e.ctx, attempt), func(ctx context.Context) error {
				for _, m := range all {
					if err := e.Effect(ctx, m.Key.String()); err != nil {
						return err
					}
				}
				return nil
			})
		})
		wg.Go(func() { taken, errB = b.Claim(e.ctx, all) })
		wg.Wait()
		if errB != nil || errTx != nil && !ledger.IsLost(errTx) {
			e.Fatalf("InTx %v, claim %v", errTx, errB)
		}
		effects := 0
		if errTx == nil {
			effects = 1
		}
		for i, c := range taken {
			e.wantEffects(all[i], effects)
			if c.Answer == ledger.Run && errTx == nil {
				e.Fatalf("message %d is committed and runs again", i)
			}
		}
	}
}
