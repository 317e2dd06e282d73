package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// refuses is a ledger that says that it parks, and refuses what is to be parked.
type refuses struct{ *memory.Ledger }

func (l refuses) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	return refusesOwner{o}, err
}

type refusesOwner struct{ ledger.Owner }

func (o refusesOwner) Settle(ctx context.Context, all []ledger.Settlement) ([]error, error) {
	errs := make([]error, len(all))
	for i := range all {
		if all[i].Kind == ledger.Park {
			errs[i] = &ledger.InvalidError{Field: "Settlement.Kind", Bound: "another", Value: "park"}
			continue
		}
		one, err := o.Owner.Settle(ctx, all[i:i+1])
		if err != nil {
			return nil, err
		}
		errs[i] = one[0]
	}
	return errs, nil
}

// TestPitfall226_RefusedBeyondItsDeadline: a retry that its broker forgets before it is due, and that the ledger refused to park, waited in memory: the
// message was lost with the process. It fails for good, as it would without parking. One that its broker keeps waits in memory, and no longer than
// others do there.
func TestPitfall226_RefusedBeyondItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, after := memory.New(), map[string]time.Duration{"forgotten": 48 * time.Hour, "kept": time.Hour, "late": 20 * 24 * time.Hour}
		var mu sync.Mutex
		runs := map[string]int{}
		e, b := begin(t, refuses{l}, options(), func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if runs[m.ID]++; runs[m.ID] == 1 {
				return consumer.RetryAfter(errors.New("not yet"), after[m.ID])
			}
			return nil
		}, parks)
		pass(time.Second)
		forgotten, kept, late := item("forgotten", ""), item("kept", ""), item("late", "")
		forgotten.Deadline = time.Now().Add(6 * time.Hour)
		e.Offer([]*engine.Item{forgotten, kept, late})
		pass(time.Minute)
		wantParked(t, l, 0)
		b.wantAcked(t, forgotten)
		if rec := state(t, l, forgotten); rec.State != ledger.Failed || len(rec.Archived) != 1 || rec.Archived[0].Kind != ledger.KindDeadline || len(rec.Archived[0].Errors) != 1 {
			t.Errorf("%+v", rec)
		}
		if n := e.Load().Held; n != 2 {
			t.Errorf("%d are held, want 2", n)
		}
		pass(2 * time.Hour)
		b.wantAcked(t, kept)
		pass(11 * time.Hour)
		b.wantAcked(t, late)
		end(t, e)
	})
}

// TestPitfall282_BoundOfEachWorker: ParkedMost held for each worker between two counts of what is parked, not for the scope: ten workers parked ten
// times as much. A worker that has parked a part of the room that it saw counts anew.
func TestPitfall282_BoundOfEachWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := memory.New(), options()
		o.ParkedMost, o.Concurrency, o.MaxHeld = 1000, 20, 5000
		const workers, each = 10, 500
		var all []*engine.Engine
		for range workers {
			e, _ := begin(t, l, o, func(context.Context, *consumer.Message) error {
				time.Sleep(100 * time.Millisecond)
				return consumer.RetryAfter(errors.New("not yet"), time.Hour)
			}, parks)
			all = append(all, e)
		}
		pass(time.Second)
		for i, e := range all {
			in := make([]*engine.Item, each)
			for n := range in {
				in[n] = item(fmt.Sprint(i, " ", n), "")
			}
			e.Offer(in)
		}
		pass(9 * time.Second)
		s, err := l.ParkedIn(t.Context(), scope)
		if over := int64(o.ParkedMost + workers*o.Concurrency); err != nil || s.Messages < int64(o.ParkedMost) || s.Messages > over {
			t.Errorf("%d are parked, %v: the bound is %d, and %d run at once", s.Messages, err, o.ParkedMost, workers*o.Concurrency)
		}
		for _, e := range all {
			end(t, e)
		}
	})
}

// A ledger that parks nothing is named when the worker starts; nothing is said where nobody wants it to.
func TestParksNotIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		l      func(*memory.Ledger) ledger.Ledger
		change func(*consumer.Options)
		said   int
	}{
		"no":     {l: func(l *memory.Ledger) ledger.Ledger { return struct{ ledger.Ledger }{l} }, said: 1},
		"off":    {l: func(l *memory.Ledger) ledger.Ledger { return struct{ ledger.Ledger }{l} }, change: func(o *consumer.Options) { o.NoParking = true }},
		"it can": {l: func(l *memory.Ledger) ledger.Ledger { return l }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				o := options()
				if o.Logger = zap.New(core); c.change != nil {
					c.change(&o)
				}
				e, _ := begin(t, c.l(memory.New()), o, func(context.Context, *consumer.Message) error { return nil }, parks)
				pass(time.Second)
				all := logs.FilterMessageSnippet("this ledger parks no messages").All()
				if len(all) != c.said || c.said > 0 && !strings.Contains(fmt.Sprint(all[0].ContextMap()["ledger"]), "Ledger") {
					t.Errorf("%+v", all)
				}
				end(t, e)
			})
		})
	}
}
