package sim

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Each promise about what the ledger answers is told by name when it is broken.
func TestBrokenPromisesOfTheLedgerAreTold(t *testing.T) {
	areTold(t, map[string]func(x *broken){
		"a range is claimed where nothing is": func(x *broken) { x.claimsFirst(0); x.both[1].mustClaimRange(x.both[1].sess, x.alone(), 2) },
		"what succeeds as one is its owner's": func(x *broken) { x.claimsFirst(0); x.both[1].mustSettleRange(x.both[1].sess, x.alone(), 1) },
		"the claim table answers":             func(x *broken) { x.claims(0, ledger.Claim{Answer: ledger.Busy}) },
		"an owner that has ended claims":      func(x *broken) { x.both[0].sess.left = true; x.claimsFirst(0) },
		"an owner is lost once its lease is":  func(x *broken) { x.both[0].mustBeOver(x.both[0].sess, ledger.ErrLost) },
		"an owner that is declared dead does": func(x *broken) { x.w.mustNotBelieve(&life{sess: x.both[0].sess, by: x.both[0]}) },
		"a claim tells what failed before": func(x *broken) {
			x.claims(0, ledger.Claim{Answer: ledger.Run, Attempt: 1, Token: 1, First: true, Errors: make([]ledger.AttemptError, 1)})
		},
		"what has failed runs again for another": func(x *broken) {
			it := x.item()
			it.Key = x.d.key
			if _, err := x.both[0].sess.owner.Claim(context.Background(), []ledger.Entry{{Key: it.Key, Delivery: it.Key.ID, Window: time.Hour}}); err != nil {
				return
			}
			x.both[0].renewed([]*flow.Item{it}, []bool{true})
		},
		promises.FinishedStays: func(x *broken) { x.d.redrive = &redrive{}; x.begins(0, 1) },
		"the ledger tells what it has": func(x *broken) {
			x.fact().key = x.d.key
			x.claimsFirst(0)
			x.w.mustKnow(x.d.message)
		},
		"the ledger counts what it has": func(x *broken) {
			x.fact().key = x.d.key
			x.w.cfg.Moods[gap] = 0
			owner := x.both[0].sess.owner
			_, _ = owner.Claim(context.Background(), []ledger.Entry{{Key: x.d.key, Delivery: x.d.key.ID, Window: time.Hour}}) // the promise tells
			_, _ = x.w.ledger.Sweep(context.Background(), ledger.MaintainConfig{})
			x.claimsFirst(0)
			x.w.twin.rows[x.d.key.Sum()].state = ledger.Failed
			x.w.mustCount()
		},
		"the ledger counts its answers":        func(x *broken) { x.w.answers.whole(1); x.w.mustCountAnswers() },
		"what is over is closed":               func(x *broken) { x.succeedsHalf(); x.w.mustBeClosed() },
		"what owners left that are gone":       func(x *broken) { x.succeedsHalf(); x.w.mustHaveDissolved() },
		"what has succeeded is forgotten":      func(x *broken) { x.succeedsHalf(); x.w.mustHaveForgotten() },
		"in the end nothing is left: 0 rows":   func(x *broken) { x.w.mustBeBare() }, // but for two owners
		"the settle rules answer":              func(x *broken) { x.claimsFirst(0); x.settles(0, ledger.ErrLost) },
		"a fence commits what is its own":      func(x *broken) { x.claimsFirst(0); x.commitsFirst(1) },
		"the claim table answers: worker 1.1 ": func(x *broken) { x.claimsFirst(0); x.claimsFirst(1) },
	})
}

// What another owner has become shows in the first answer about what it had, and stays so.
func TestFatesShowInAnswers(t *testing.T) {
	x := newBroken(t)
	x.claimsFirst(0)
	x.both[0].sess.ledgerUntil, x.w.now = 0, time.Second
	x.claims(1, ledger.Claim{Answer: ledger.Busy, Held: true}) // it is overdue, and nobody has declared it dead
	if got := x.both[0].sess.fate; got != ledger.Nobody || x.w.broken != nil {
		t.Fatalf("fate %d, %v", got, x.w.broken)
	}
	x.claims(1, ledger.Claim{Answer: ledger.Run, Attempt: 1, Token: 2, Crashes: 1, TookOver: true})
	if got := x.both[0].sess.fate; got != ledger.Dead || x.w.broken != nil {
		t.Fatalf("fate %d, %v", got, x.w.broken)
	}
	x.claims(0, ledger.Claim{Answer: ledger.Busy, Held: true, Wait: time.Hour})
	if x.w.broken == nil {
		t.Fatal("the dead claim")
	}
}

// succeedsHalf has two messages claimed as a range, of which one succeeds.
func (x *broken) succeedsHalf() {
	owner, ctx := x.both[0].sess.owner, context.Background()
	var asks []ledger.Entry
	for _, r := range x.part().records[:2] {
		asks = append(asks, ledger.Entry{Key: r.key, Delivery: r.key.ID, Window: time.Hour, Ranged: true})
	}
	claims, err := owner.Claim(ctx, asks)
	if err != nil { // the promise is not broken, then
		return
	}
	ctx = ledger.WithAttempt(ctx, ledger.NewBatchAttempt(owner, []ledger.Ticket{claims[0].Ticket}))
	_ = memory.InTx(ctx, func(context.Context) error { return nil }) // the range is not over
	x.fact().key = x.d.key
}

// alone is a range of the message alone.
func (x *broken) alone() several {
	r := x.part().records[0]
	return records{&taken{record: r, of: &assignment{}, key: r.key}}
}

// claims has a process claim the message, with an answer.
func (x *broken) claims(by int, is ledger.Claim) {
	e := ledger.Entry{Key: x.d.key, Delivery: x.d.key.ID, Window: time.Hour}
	x.both[by].mustClaim(x.both[by].sess, &flow.Claim{Items: []*flow.Item{x.item()}}, []ledger.Entry{e}, []ledger.Claim{is})
}

// claimsFirst has it claim what nobody has claimed.
func (x *broken) claimsFirst(by int) {
	x.claims(by, ledger.Claim{Answer: ledger.Run, Attempt: 1, Token: 1, First: true})
}

func (x *broken) settles(by int, is error) {
	s := ledger.Settlement{Ticket: ledger.NewTicket(x.d.key.Sum(), 1), Kind: ledger.Succeed}
	x.both[by].mustSettle(x.both[by].sess, x.d, &s, is)
}

func (x *broken) commitsFirst(by int) {
	x.both[by].mustCommit(x.both[by].sess, x.d, ledger.NewTicket(x.d.key.Sum(), 1), nil)
}
