package ledgertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var batchCases = []testCase{
	{"InTx_BatchCommitsAll", txBatchCommit},
	{"InTx_BatchRollsBack", txBatchRollsBack},
	{"InTx_BatchWithOneLost", txBatchOneLost},
	{"InTx_BatchSecondCallIsSettled", txBatchTwice},
	{"InTx_BatchRefused", txBatchRefused},
	{"InTx_BatchesInOppositeOrder", txBatchOpposite},
}

// batch is what a batch handler was given.
type batch struct {
	entries []ledger.Entry
	claims  []ledger.Claim
	attempt *ledger.Attempt
	ctx     context.Context // the handler's
}

// within is the same case with a scope of its own.
func (e *env) within(name string) *env {
	return &env{T: e.T, Store: e.Store, ctx: e.ctx, scope: e.scope + " " + name, places: e.places}
}

// batch claims n messages and makes the context of their handler. The tickets are not in the order of the keys.
func (e *env) batch(o ledger.Owner, n int) *batch {
	e.Helper()
	b := &batch{entries: e.entries(n)}
	b.claims = e.claimAll(o, b.entries)
	tickets := make([]ledger.Ticket, n)
	for i, c := range b.claims {
		if c.Answer != ledger.Run {
			e.Fatalf("claim %d of %d: %v", i, n, c.Answer)
		}
		tickets[i] = c.Ticket
	}
	b.attempt = ledger.NewBatchAttempt(o, tickets)
	b.ctx = ledger.WithAttempt(e.ctx, b.attempt)
	return b
}

// effects is a handler that has one effect for each message.
func (e *env) effects(b *batch) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, m := range b.entries {
			if err := e.Effect(ctx, m.Key.String()); err != nil {
				return err
			}
		}
		return nil
	}
}

// nothingHappened checks that the transaction of a batch left nothing behind, and that its messages run singly then.
func (e *env) nothingHappened(o ledger.Owner, b *batch, before []ledger.Record, except int) {
	e.Helper()
	for i, m := range b.entries {
		e.wantEffects(m, 0)
		if i == except {
			continue
		}
		e.same(before[i])
		ctx, a := e.attempt(o, b.claims[i])
		if err := e.InTx(ctx, e.effect(m)); err != nil {
			e.Fatalf("InTx of message %d alone: %v", i, err)
		}
		e.wantState(a, ledger.AttemptSucceeded)
		e.wantEffects(m, 1)
	}
}

func (e *env) records(b *batch) []ledger.Record {
	e.Helper()
	out := make([]ledger.Record, len(b.entries))
	for i, m := range b.entries {
		out[i] = e.record(m)
	}
	return out
}

// inOneTx is how many of so many messages the store's InTx takes.
func (e *env) inOneTx(n int) int {
	if e.InTxMost > 0 {
		return min(n, e.InTxMost)
	}
	return n
}

func txBatchCommit(e *env) {
	limit := e.Ledger.Limits().Result
	results := [][]byte{nil, {}, []byte("\x00 receipt"), make([]byte, limit+1), nil}
	for _, n := range []int{1, len(results), e.inOneTx(300)} {
		o := e.owner()
		inner := e.within(strconv.Itoa(n))
		b := inner.batch(o, n)
		result := func(i int) []byte {
			if i < len(results) {
				return results[i]
			}
			return nil
		}
		err := e.InTx(b.ctx, func(ctx context.Context) error {
			for i := range b.entries {
				if err := b.attempt.SetResultAt(i, result(i)); err != nil {
					return err
				}
			}
			return e.effects(b)(ctx)
		})
		if err != nil {
			e.Fatalf("InTx of %d: %v", n, err)
		}
		e.wantState(b.attempt, ledger.AttemptSucceeded)
		for i, r := range inner.records(b) {
			want := storage.CutResult(result(i), limit)
			if r.State != ledger.Succeeded || r.Owner != "" || string(r.Result) != string(want) || (r.Result == nil) != (want == nil) {
				e.Fatalf("row %d of %d: %.300s", i, n, summary(r))
			}
			if n <= len(results) {
				e.wantEffects(b.entries[i], 1)
			}
			if err := b.attempt.SetResultAt(i, nil); !errors.Is(err, ledger.ErrSettled) {
				e.Fatalf("SetResultAt after the commit: %v", err)
			}
		}
	}
}

func txBatchRollsBack(e *env) {
	o := e.owner()
	b := e.batch(o, 5)
	before := e.records(b)
	err := e.InTx(b.ctx, func(ctx context.Context) error {
		return errors.Join(e.effects(b)(ctx), errHandler)
	})
	if !errors.Is(err, errHandler) {
		e.Fatalf("InTx: %v, want the handler's error", err)
	}
	e.wantState(b.attempt, ledger.AttemptOpen)
	e.nothingHappened(o, b, before, -1)

	p := e.owner()
	inner := e.within("panic")
	b = inner.batch(p, 5)
	before = inner.records(b)
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				e.Errorf("recovered %v, want the handler's panic", v)
			}
		}()
		_ = e.InTx(b.ctx, func(ctx context.Context) error {
			if err := e.effects(b)(ctx); err != nil {
				return err
			}
			panic("boom")
		})
		e.Error("InTx returned from a panic")
	}()
	e.wantState(b.attempt, ledger.AttemptOpen)
	inner.nothingHappened(p, b, before, -1)
}

// txBatchOneLost: if the fence took what rows there are, the effects of the lost message would be committed with the rest.
func txBatchOneLost(e *env) {
	const lost = 3
	for name, lose := range map[string]func(e *env, o ledger.Owner, b *batch){
		"released":  func(e *env, o ledger.Owner, b *batch) { e.holds(o, release(b.claims[lost])) },
		"failed":    func(e *env, o ledger.Owner, b *batch) { e.holds(o, fail(b.claims[lost], b.entries[lost])) },
		"succeeded": func(e *env, o ledger.Owner, b *batch) { e.holds(o, succeed(b.claims[lost])) },
		"again": func(e *env, o ledger.Owner, b *batch) { // by this very owner, under a later token
			e.holds(o, release(b.claims[lost]))
			e.want(o, b.entries[lost], ledger.Run)
		},
		"taken over": func(e *env, o ledger.Owner, b *batch) {
			e.holds(o, release(b.claims[lost]))
			e.want(e.owner(), b.entries[lost], ledger.Run)
		},
		"gone": func(e *env, o ledger.Owner, b *batch) {
			if e.Ranged { // nothing in a live owner's range goes: only what has left it for a row
				e.holds(o, failedAttempt(b.claims[lost], "leave the range"))
				return
			}
			if err := e.Drop(e.ctx, b.entries[lost].Key); err != nil {
				e.Fatal(err)
			}
		},
	} {
		o := e.owner()
		inner := e.within(name)
		b := inner.batch(o, 7)
		before := inner.records(b)
		lose(inner, o, b)
		if err := e.InTx(b.ctx, e.effects(b)); !ledger.IsLost(err) {
			e.Fatalf("InTx with one message %s: %v, want ErrLost", name, err)
		}
		e.wantState(b.attempt, ledger.AttemptLost)
		inner.nothingHappened(o, b, before, lost)
	}
}

func txBatchTwice(e *env) {
	b := e.batch(e.owner(), 3)
	err := e.InTx(b.ctx, func(inner context.Context) error {
		if err := e.InTx(inner, e.effects(b)); !errors.Is(err, ledger.ErrSettled) {
			e.Errorf("InTx inside InTx: %v, want ErrSettled", err)
		}
		return e.effects(b)(inner)
	})
	if err != nil {
		e.Fatalf("InTx: %v", err)
	}
	if err := e.InTx(b.ctx, e.effects(b)); !errors.Is(err, ledger.ErrSettled) {
		e.Fatalf("second InTx: %v, want ErrSettled", err)
	}
	for _, m := range b.entries {
		e.wantEffects(m, 1)
	}
}

// txBatchRefused: a batch that no fence can stand for does not even run.
func txBatchRefused(e *env) {
	o := e.owner()
	b := e.batch(o, 2)
	for name, tickets := range map[string][]ledger.Ticket{
		"of nothing":         nil,
		"of a message twice": {b.claims[0].Ticket, b.claims[1].Ticket, b.claims[0].Ticket},
	} {
		a := ledger.NewBatchAttempt(o, tickets)
		err := e.InTx(ledger.WithAttempt(e.ctx, a), func(context.Context) error {
			e.Errorf("a batch %s runs", name)
			return nil
		})
		e.invalid(err, "Attempt.Tickets")
	}
}

// txBatchOpposite: two transactions fence the same messages, one in the order that is the other's backwards. One commits,
// the other is lost; a deadlock would be neither.
func txBatchOpposite(e *env) {
	for round := range 3 {
		o := e.owner()
		inner := e.within(strconv.Itoa(round))
		there := inner.batch(o, e.inOneTx(200))
		tickets := slices.Clone(there.attempt.Tickets())
		slices.Reverse(tickets)
		back := ledger.NewBatchAttempt(o, tickets)
		states := make([]ledger.AttemptState, 2)
		var wg sync.WaitGroup
		for i, a := range []*ledger.Attempt{there.attempt, back} {
			wg.Go(func() {
				err := e.InTx(ledger.WithAttempt(e.ctx, a), func(ctx context.Context) error {
					return e.Effect(ctx, there.entries[0].Key.String())
				})
				if states[i], _ = a.State(); err != nil && !ledger.IsLost(err) {
					e.Errorf("InTx: %v, want success or ErrLost", err)
				}
			})
		}
		wg.Wait()
		slices.Sort(states)
		if want := []ledger.AttemptState{ledger.AttemptSucceeded, ledger.AttemptLost}; !slices.Equal(states, want) {
			e.Fatalf("states %v, want one success and one loss %v", states, want)
		}
		e.wantEffects(there.entries[0], 1)
	}
}
