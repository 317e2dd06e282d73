package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestStepOfARequest: a request that is released, and asked for again, makes no call whose result is recorded.
func TestStepOfARequest(t *testing.T) {
	t.Parallel()
	r := begin(t, memory.New(), idempotency.Options{Name: "steps"})
	made, failure := 0, errBoom
	do := func() (idempotency.Outcome, error) {
		return r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
			id, err := consumer.Step(ctx, "charge", func(_ context.Context, key string) (string, error) {
				made++
				return key, nil
			})
			if err != nil || id != consumer.ChildKey(ctx, "charge") {
				t.Errorf("step: %q, %v", id, err)
			}
			if failure != nil {
				return idempotency.Result{}, idempotency.Release(failure)
			}
			return idempotency.Result{Status: 201, Body: []byte(id)}, nil
		})
	}
	if _, err := do(); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	failure = nil
	if out, err := do(); err != nil || out.Replayed || made != 1 {
		t.Fatalf("%+v, %v, %d calls", out, err, made)
	}
}

// grouping is a ledger whose owners group what is called at once, and hold back what records steps until open is closed.
type grouping struct {
	ledger.Ledger
	open    chan struct{}
	records atomic.Int32 // calls that recorded steps
}

func (l *grouping) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	return ledger.Group(&groupingOwner{o, l}, ledger.GroupConfig{Flushes: 2}), err
}

type groupingOwner struct {
	ledger.Owner
	l *grouping
}

func (o *groupingOwner) Unwrap() ledger.Owner { return o.Owner }

func (o *groupingOwner) Settle(ctx context.Context, s []ledger.Settlement) ([]error, error) {
	if s[0].Kind == ledger.RecordStep {
		o.l.records.Add(1)
		<-o.l.open
	}
	return o.Owner.Settle(ctx, s)
}

// TestPitfall162_StepsOneByOne: what requests record at the same time is one write of the ledger.
func TestPitfall162_StepsOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const requests = 100
		l := &grouping{Ledger: memory.New(), open: make(chan struct{})}
		r := begin(t, l, idempotency.Options{})
		var all sync.WaitGroup
		for n := range requests {
			all.Go(func() {
				_, err := r.Do(t.Context(), request(fmt.Sprint(n)), func(ctx context.Context) (idempotency.Result, error) {
					_, err := consumer.Step(ctx, "charge", func(context.Context, string) (int, error) { return n, nil })
					return idempotency.Result{}, err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // two calls are on their way, what came after them waits
		close(l.open)
		all.Wait()
		if n := l.records.Load(); n != 3 {
			t.Errorf("%d writes of %d steps at once, want 3", n, requests)
		}
	})
}

// TestStepOfASealedRequest: a runner's cipher seals results of steps, too.
func TestStepOfASealedRequest(t *testing.T) {
	t.Parallel()
	r := begin(t, memory.New(), idempotency.Options{Cipher: flip{}})
	for n, failure := range []error{errBoom, nil} {
		_, err := r.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Result, error) {
			got, err := consumer.Step(ctx, "charge", func(context.Context, string) (string, error) {
				if n > 0 {
					t.Error("called again")
				}
				return "card 4111", nil
			})
			if err != nil || got != "card 4111" {
				t.Errorf("step: %q, %v", got, err)
			}
			a, _ := ledger.AttemptFrom(ctx)
			all, err := ledger.ReadSteps(ctx, a.Owner(), a.Ticket())
			if err != nil || len(all) != 1 || bytes.Contains(all[0].Result, []byte("4111")) {
				t.Errorf("recorded: %+v, %v", all, err)
			}
			return idempotency.Result{}, failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("%d: %v", n, err)
		}
	}
}
