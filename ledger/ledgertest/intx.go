package ledgertest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// RunInTx is the suite of InTx. The store has the fields InTx, Effect and Effects.
func RunInTx(t *testing.T, open Open) {
	for _, c := range append([]testCase{
		{"InTx_CommitsEffectAndSuccess", txCommit},
		{"InTx_BeforeCommit", txBeforeCommit},
		{"InTx_ErrorRollsBack", txError},
		{"InTx_PanicRollsBack", txPanic},
		{"InTx_GoexitRollsBack", txGoexit},
		{"InTx_FencedAfterTakeOver", txFenced},
		{"InTx_FencedAfterRelease", txReleased},
		{"InTx_FencedAfterSuccess", txSucceeded},
		{"InTx_DeclaredButNotTakenOverCommits", txDeclared},
		{"InTx_SecondCallIsSettled", txTwice},
		{"InTx_WithoutAttempt", txNoAttempt},
		{"InTx_CancelledBeforeCommit", txCancelled},
		{"InTx_GroupedOwner", txGrouped},
		{"InTx_LateReleaseAfterCommit", txLateRelease},
		{"InTx_TwoOwnersOneEffect", txTwoOwners},
	}, batchCases...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := begin(t, open)
			if e.InTx == nil || e.Effect == nil || e.Effects == nil {
				t.Fatal("ledgertest.Store: InTx, Effect and Effects are needed")
			}
			c.run(e)
		})
	}
}

var errHandler = errors.New("the handler's own error")

// attempt makes the context of a handler.
func (e *env) attempt(o ledger.Owner, c ledger.Claim) (context.Context, *ledger.Attempt) {
	a := ledger.NewAttempt(o, c.Ticket)
	return ledger.WithAttempt(e.ctx, a), a
}

// effect is a handler that has one effect, named by the message.
func (e *env) effect(m ledger.Entry) func(context.Context) error {
	return func(ctx context.Context) error { return e.Effect(ctx, m.Key.String()) }
}

func (e *env) wantEffects(m ledger.Entry, want int) {
	e.Helper()
	all, err := e.Effects(e.ctx)
	if err != nil {
		e.Fatalf("effects: %v", err)
	}
	if got := all[m.Key.String()]; got != want {
		e.Fatalf("%d effects of %s, want %d", got, m.Key.String(), want)
	}
}

func (e *env) wantState(a *ledger.Attempt, want ledger.AttemptState) {
	e.Helper()
	if state, err := a.State(); state != want || (err == nil) != (want == ledger.AttemptSucceeded) {
		e.Fatalf("attempt state %d (%v), want %d", state, err, want)
	}
}

func txCommit(e *env) {
	for i, result := range [][]byte{nil, {}, []byte("\x00 receipt"), make([]byte, e.Ledger.Limits().Result+1)} {
		o, m := e.owner(), e.entry(number(i))
		ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
		err := e.InTx(ctx, func(ctx context.Context) error {
			if err := a.SetResult(result); err != nil {
				return err
			}
			return e.Effect(ctx, m.Key.String())
		})
		if err != nil {
			e.Fatalf("InTx: %v", err)
		}
		e.wantState(a, ledger.AttemptSucceeded)
		e.wantEffects(m, 1)
		r := e.record(m)
		want := storage.CutResult(result, e.Ledger.Limits().Result)
		if r.State != ledger.Succeeded || r.Owner != "" || string(r.Result) != string(want) || (r.Result == nil) != (want == nil) {
			e.Fatalf("row: %.300s", summary(r))
		}
		if err := a.SetResult(nil); !errors.Is(err, ledger.ErrSettled) {
			e.Fatalf("SetResult after the commit: %v", err)
		}
	}
}

// What is set right before the commit is part of it, and what fails there rolls it back.
func txBeforeCommit(e *env) {
	for i, failure := range []error{nil, errHandler} {
		o, m := e.owner(), e.entry(number(i))
		c := e.want(o, m, ledger.Run)
		before := e.record(m)
		ctx, a := e.attempt(o, c)
		ran := false
		a.BeforeCommit(func() error {
			if !ran {
				e.Errorf("asked before the transaction's function has returned")
			}
			return errors.Join(failure, a.SetResult([]byte("late")))
		})
		err := e.InTx(ctx, func(ctx context.Context) error {
			ran = true
			return e.Effect(ctx, m.Key.String())
		})
		if !errors.Is(err, failure) || (err == nil) != (failure == nil) {
			e.Fatalf("InTx: %v, want %v", err, failure)
		}
		if failure != nil {
			stillOurs(e, o, m, c, a, before)
			continue
		}
		e.wantState(a, ledger.AttemptSucceeded)
		e.wantEffects(m, 1)
		if r := e.record(m); r.State != ledger.Succeeded || string(r.Result) != "late" {
			e.Fatalf("row: %.300s", summary(r))
		}
	}
}

// stillOurs checks that a transaction left nothing behind and that the message can still be settled.
func stillOurs(e *env, o ledger.Owner, m ledger.Entry, c ledger.Claim, a *ledger.Attempt, before ledger.Record) {
	e.Helper()
	e.wantState(a, ledger.AttemptOpen)
	e.wantEffects(m, 0)
	e.same(before)
	e.holds(o, failedAttempt(c, "rolled back"))
}

func txError(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	before := e.record(m)
	ctx, a := e.attempt(o, c)
	err := e.InTx(ctx, func(ctx context.Context) error {
		if err := e.Effect(ctx, m.Key.String()); err != nil {
			return err
		}
		return errHandler
	})
	if !errors.Is(err, errHandler) {
		e.Fatalf("InTx: %v, want the handler's error", err)
	}
	stillOurs(e, o, m, c, a, before)
}

func txPanic(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	before := e.record(m)
	ctx, a := e.attempt(o, c)
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				e.Errorf("recovered %v, want the handler's panic", v)
			}
		}()
		_ = e.InTx(ctx, func(ctx context.Context) error {
			if err := e.Effect(ctx, m.Key.String()); err != nil {
				return err
			}
			panic("boom")
		})
		e.Error("InTx returned from a panic")
	}()
	stillOurs(e, o, m, c, a, before)
}

func txGoexit(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	before := e.record(m)
	ctx, a := e.attempt(o, c)
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = e.InTx(ctx, func(ctx context.Context) error {
			if err := e.Effect(ctx, m.Key.String()); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
		e.Error("InTx returned from a Goexit")
	})
	wg.Wait()
	stillOurs(e, o, m, c, a, before)
}

func txFenced(e *env) {
	o, b, m := e.owner(), e.owner(), e.entry("a")
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	e.declare(o)
	taken := e.want(b, m, ledger.Run)
	if err := e.InTx(ctx, e.effect(m)); !ledger.IsLost(err) {
		e.Fatalf("InTx: %v, want ErrLost", err)
	}
	e.wantState(a, ledger.AttemptLost)
	e.wantEffects(m, 0)
	e.holds(b, succeed(taken))
}

// txReleased: without the fence being read before COMMIT is sent, a released row would still commit the effects.
func txReleased(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	ctx, a := e.attempt(o, c)
	e.holds(o, release(c))
	var before ledger.Record
	if !e.Ranged {
		before = e.record(m)
	}
	if err := e.InTx(ctx, e.effect(m)); !ledger.IsLost(err) {
		e.Fatalf("InTx: %v, want ErrLost", err)
	}
	e.wantState(a, ledger.AttemptLost)
	e.wantEffects(m, 0)
	if e.Ranged {
		e.wantUnknown(m)
		return
	}
	e.same(before)
}

func txSucceeded(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	ctx, a := e.attempt(o, c)
	e.holds(o, succeed(c))
	if err := e.InTx(ctx, e.effect(m)); !ledger.IsLost(err) {
		e.Fatalf("InTx: %v, want ErrLost: its effects are not in the commit that succeeded", err)
	}
	e.wantState(a, ledger.AttemptLost)
	e.wantEffects(m, 0)
}

func txDeclared(e *env) {
	o, m := e.owner(), e.entry("a")
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	e.declare(o)
	if err := e.InTx(ctx, e.effect(m)); err != nil {
		e.Fatalf("InTx: %v; the row still names its owner and token", err)
	}
	e.wantState(a, ledger.AttemptSucceeded)
	e.wantEffects(m, 1)
	e.want(e.owner(), m, ledger.Done)
}

func txTwice(e *env) {
	o, m := e.owner(), e.entry("a")
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	err := e.InTx(ctx, func(inner context.Context) error {
		if err := e.InTx(inner, e.effect(m)); !errors.Is(err, ledger.ErrSettled) {
			e.Errorf("InTx inside InTx: %v, want ErrSettled", err)
		}
		return e.Effect(inner, m.Key.String())
	})
	if err != nil {
		e.Fatalf("InTx: %v", err)
	}
	if err := e.InTx(ctx, e.effect(m)); !errors.Is(err, ledger.ErrSettled) {
		e.Fatalf("second InTx: %v, want ErrSettled", err)
	}
	e.wantState(a, ledger.AttemptSucceeded)
	e.wantEffects(m, 1)
}

func txNoAttempt(e *env) {
	m := e.entry("a")
	if err := e.InTx(e.ctx, e.effect(m)); !errors.Is(err, ledger.ErrNoAttempt) {
		e.Fatalf("InTx: %v, want ErrNoAttempt", err)
	}
	e.wantEffects(m, 0)
}

// txCancelled: fence and commit run on a context that neither shutdown nor lease loss cancels.
func txCancelled(e *env) {
	o, m := e.owner(), e.entry("a")
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := e.InTx(ctx, func(ctx context.Context) error {
		if err := e.Effect(ctx, m.Key.String()); err != nil {
			return err
		}
		cancel()
		return nil
	})
	if err != nil {
		e.Fatalf("InTx: %v", err)
	}
	e.wantState(a, ledger.AttemptSucceeded)
	e.wantEffects(m, 1)
}

func txGrouped(e *env) {
	o, m := ledger.Group(e.owner(), ledger.GroupConfig{}), e.entry("a")
	ctx, a := e.attempt(o, e.want(o, m, ledger.Run))
	if err := e.InTx(ctx, e.effect(m)); err != nil {
		e.Fatalf("InTx: %v", err)
	}
	e.wantState(a, ledger.AttemptSucceeded)
	e.wantEffects(m, 1)
}

func txLateRelease(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	ctx, _ := e.attempt(o, c)
	if err := e.InTx(ctx, e.effect(m)); err != nil {
		e.Fatalf("InTx: %v", err)
	}
	before := e.record(m)
	e.holds(o, failedAttempt(c, "late"))
	e.same(before)
}

// txTwoOwners: an old owner and the one that took over run their transactions at once; one effect is committed.
func txTwoOwners(e *env) {
	overlap := time.Second
	if e.Lock == nil { // one lock for the whole store: the claim waits for the transaction's end, never the other way round
		overlap = 50 * time.Millisecond
	}
	for i := range 10 {
		o, b, m := e.owner(), e.owner(), e.entry(number(i))
		old, oldAttempt := e.attempt(o, e.want(o, m, ledger.Run))
		e.declare(o)
		inside, taken := make(chan struct{}), make(chan struct{})
		var errOld error
		var wg sync.WaitGroup
		wg.Go(func() {
			errOld = e.InTx(old, func(ctx context.Context) error {
				close(inside)
				select { // the effect is in the middle of the take-over, where a store lets them overlap
				case <-taken:
				case <-time.After(overlap):
				}
				return e.Effect(ctx, m.Key.String())
			})
		})
		<-inside
		claims, err := b.Claim(e.ctx, []ledger.Entry{m})
		close(taken)
		if err != nil {
			e.Fatalf("claim: %v", err)
		}
		if claims[0].Answer == ledger.Run {
			ctx, _ := e.attempt(b, claims[0])
			if err := e.InTx(ctx, e.effect(m)); err != nil {
				e.Fatalf("InTx of the new owner: %v", err)
			}
		}
		wg.Wait()
		if state, _ := oldAttempt.State(); (errOld == nil) != (state == ledger.AttemptSucceeded) {
			e.Fatalf("old owner: %v, state %d", errOld, state)
		}
		e.wantEffects(m, 1)
		if r := e.record(m); r.State != ledger.Succeeded {
			e.Fatalf("row: %s", summary(r))
		}
	}
}
