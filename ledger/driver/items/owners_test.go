package items_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

func idOf(t *testing.T, o ledger.Owner) driver.OwnerID {
	t.Helper()
	n, err := strconv.ParseInt(o.ID(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return driver.OwnerID(n)
}

// fate is that of an owner.
func (w *world) fate(id driver.OwnerID) driver.Fate {
	w.Helper()
	found, err := w.table.Get(w.Context(), []items.Name{items.OwnerName(id)})
	if err != nil {
		w.Fatal(err)
	}
	return driver.Fate(found[items.OwnerName(id)][items.Fate].Number)
}

// seal lets the process that freezes look for owners that are overdue.
func (w *world) seal(caller driver.OwnerID) {
	w.Helper()
	if err := w.hooks.Store.Seal(w.Context(), caller); err != nil {
		w.Fatal(err)
	}
}

// A peer had seen one beat of an owner for longer than its lease, and froze before it declared it dead. The owner had been slow, and beat
// then: it was declared dead all the same, though it had been told that it lives, and its messages were taken from under its handlers.
func TestPitfall06_BeatBeforeTheDeclaration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, e := newWorld(t), message()
		id := idOf(t, w.other)
		w.seal(0)
		time.Sleep(2 * time.Minute)
		w.way.stops = func(_ *items.Query, c *items.Change) bool { return c != nil && c.Name == items.OwnerName(id) }
		w.way.then = func() {
			if _, err := w.other.Beat(t.Context()); err != nil {
				t.Errorf("a beat of an owner that lives: %v", err)
			}
		}
		w.seal(0)
		if w.way.then != nil {
			t.Fatal("it did not freeze")
		}
		if fate := w.fate(id); fate != driver.Live {
			t.Errorf("an owner whose beat is confirmed has the fate %d", fate)
		}
		if c := w.claim(w.other, e)[0]; c.Answer != ledger.Run {
			t.Errorf("a claim: %v", c.Answer)
		}
		time.Sleep(2 * time.Minute)
		w.seal(0)
		time.Sleep(2 * time.Minute)
		w.seal(0)
		if fate := w.fate(id); fate != driver.Dead {
			t.Errorf("an owner that beats no more has the fate %d", fate)
		}
	})
}

// An owner that left, or died, keeps its fate, and nobody declares itself dead.
func TestSealLeavesOthersAsTheyAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		left, caller := idOf(t, w.other), idOf(t, w.joins())
		w.seal(caller)
		if err := w.other.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		w.seal(caller)
		time.Sleep(2 * time.Minute)
		w.seal(caller)
		if l, c := w.fate(left), w.fate(caller); l != driver.Left || c != driver.Live {
			t.Errorf("who left has the fate %d, and who calls %d", l, c)
		}
	})
}

// A beat took long on its way, and so did a join: the lease counts from before they were sent, as peers count it from a moment that is no
// earlier. By the answer the owner took itself for live when peers had it for dead.
func TestPitfall03_LeaseFromTheAnswer(t *testing.T) {
	t.Parallel()
	for name, beats := range map[string]bool{"join": false, "beat": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				way := &slow{Table: itemstest.NewTable(0, 1)}
				way.by = 50 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if beats {
					way.by = 0
				}
				l := driver.New(items.New(way), driver.Config{Name: "items", Limits: ledger.DefaultLimits, Keys: items.Messages, Parts: items.Parts})
				o, err := l.Join(ctx, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if beats {
					time.Sleep(30 * time.Second)
					way.by = 50 * time.Second
					if _, err := o.Beat(ctx); err != nil {
						t.Fatal(err)
					}
				}
				way.by = 0
				e := message()
				if claims, err := o.Claim(ctx, []ledger.Entry{e}); err != nil || claims[0].Answer != ledger.Run {
					t.Fatalf("within the lease: %+v, %v", claims, err)
				}
				time.Sleep(20 * time.Second)
				if claims, err := o.Claim(ctx, []ledger.Entry{e}); !ledger.IsLost(err) {
					t.Errorf("claimed %+v, %v, ten seconds after the lease", claims, err)
				}
			})
		})
	}
}

// An owner that could not leave goes on, if that is certain. If nobody knows whether it has left it claims nothing any more: a peer may take it
// for gone, and what it claims then is nobody's.
func TestPitfall113_ClaimOfAnOwnerThatMayHaveLeft(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		told error
		lost bool
	}{"refused": {errors.New("refused"), false}, "no answer": {errNoAnswer, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			o := w.joins()
			w.way.fails = of.told
			if err := o.Leave(t.Context()); !errors.Is(err, of.told) {
				t.Fatalf("leave: %v, want %v", err, of.told)
			}
			w.way.fails = nil
			claims, err := o.Claim(t.Context(), []ledger.Entry{message()})
			if ledger.IsLost(err) != of.lost || !of.lost && (err != nil || claims[0].Answer != ledger.Run) {
				t.Errorf("claim: %+v, %v", claims, err)
			}
		})
	}
}
