package ledger_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

func TestGroupLoneCallGoesStraightThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := ledger.Group(&recorder{}, ledger.GroupConfig{})
		began := time.Now()
		check(t, <-claimLater(t.Context(), o, "a"), "a")
		if waited := time.Since(began); waited != 0 {
			t.Fatalf("a lone call waited %s for company", waited)
		}
	})
}

func TestGroupMergesWhileFlushesAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{})
		var calls []chan answered
		for i := range 100 {
			calls = append(calls, claimLater(t.Context(), o, strconv.Itoa(i)))
			synctest.Wait()
		}
		if n := len(r.seen()); n != 2 {
			t.Fatalf("%d flushes in flight, want 2", n)
		}
		close(r.gate)
		for i, c := range calls {
			check(t, <-c, strconv.Itoa(i))
		}
		if got := r.seen(); len(got) != 3 || len(got[2]) != 98 {
			t.Fatalf("%d flushes, want 3 with 98 in the last one", len(got))
		}
	})
}

// Where a second flush would only wait for the first, it is left to grow instead; and goes once it need not wait.
func TestGroupOneFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		var one atomic.Bool
		o := ledger.Group(r, ledger.GroupConfig{OneFlush: one.Load})
		var calls []chan answered
		ask := func(n int) {
			for range n {
				calls = append(calls, claimLater(t.Context(), o, strconv.Itoa(len(calls))))
				synctest.Wait()
			}
		}
		one.Store(true)
		ask(50)
		if n := len(r.seen()); n != 1 {
			t.Fatalf("%d flushes in flight, want 1", n)
		}
		one.Store(false)
		ask(1)
		if got := r.seen(); len(got) != 2 || len(got[1]) != 50 {
			t.Fatalf("%d flushes in flight, want 2 with 50 in the last one", len(got))
		}
		close(r.gate)
		for i, c := range calls {
			check(t, <-c, strconv.Itoa(i))
		}
	})
}

func TestGroupBoundsItemsBytesAndFlushes(t *testing.T) {
	for name, cfg := range map[string]ledger.GroupConfig{
		"items": {Items: 70, Flushes: 3},
		"bytes": {Bytes: 70 * 68, Flushes: 3}, // 64 and the bytes of an entry
		"queue": {Items: 70, Flushes: 3, Queue: 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				o := ledger.Group(r, cfg)
				var calls []chan answered
				for i := range 20 {
					calls = append(calls, claimLater(t.Context(), o, numbers(1000+i*200, 1+i*10)...))
				}
				for i, c := range calls {
					check(t, <-c, numbers(1000+i*200, 1+i*10)...)
				}
				for _, f := range r.seen() {
					if len(f) > 72 {
						t.Fatalf("a flush of %d items", len(f))
					}
				}
				if r.most > 3 {
					t.Fatalf("%d flushes at once, want at most 3", r.most)
				}
			})
		})
	}
}

func TestGroupLargeItemTravelsAlone(t *testing.T) {
	l := memory.New()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	g := ledger.Group(o, ledger.GroupConfig{Bytes: 1000})
	claims, err := g.Claim(t.Context(), ask("a", "b", "c"))
	if err != nil {
		t.Fatal(err)
	}
	settlements := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		settlements[i] = ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: make([]byte, 5000)}
	}
	errs, err := g.Settle(t.Context(), settlements)
	if err != nil || slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatalf("settle: %v, %v", errs, err)
	}
}

func TestGroupBlocksWhenTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{Items: 2, Flushes: 1, Queue: 4})
		calls := []chan answered{claimLater(t.Context(), o, "a", "b"), claimLater(t.Context(), o, "c", "d")}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		blocked := claimLater(ctx, o, "e", "f", "g")
		synctest.Wait()
		behind := claimLater(t.Context(), o, "h")
		synctest.Wait()
		got := <-blocked
		if !errors.Is(got.err, context.DeadlineExceeded) || ledger.Unknown(got.err) ||
			!strings.Contains(got.err.Error(), "room in the queue") {
			t.Fatalf("%v, want a known error of the full queue", got.err)
		}
		close(r.gate)
		check(t, <-calls[0], "a", "b")
		check(t, <-calls[1], "c", "d")
		check(t, <-behind, "h")
		check(t, <-claimLater(t.Context(), o, numbers(0, 20)...), numbers(0, 20)...) // more than the queue: alone
	})
}

// The flush has a deadline of its own: a store that hangs holds nobody for ever.
func TestGroupFlushHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{})
		began := time.Now()
		got := <-claimLater(t.Context(), o, "a")
		if !ledger.Unknown(got.err) || time.Since(began) != 10*time.Second {
			t.Fatalf("%v after %s, want unknown after 10s", got.err, time.Since(began))
		}
	})
}

func TestUnwrap(t *testing.T) {
	l := memory.New()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	g := ledger.Group(ledger.Group(o, ledger.GroupConfig{}), ledger.GroupConfig{})
	if own := ledger.Unwrap(o); ledger.Unwrap(g) != own || ledger.Unwrap(own) != own || g.ID() != o.ID() {
		t.Fatal("Unwrap does not find the store's owner")
	}
	if err := g.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Beat(t.Context()); !ledger.IsLost(err) {
		t.Fatalf("beat after leaving through the group: %v", err)
	}
}
