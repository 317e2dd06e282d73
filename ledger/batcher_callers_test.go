package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func TestGroupCallerGivesUpBeforeItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{Flushes: 1})
		first := claimLater(t.Context(), o, "a")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		queued := <-claimLater(ctx, o, "b")
		if !errors.Is(queued.err, context.DeadlineExceeded) || ledger.Unknown(queued.err) {
			t.Fatalf("%v, want a known error", queued.err)
		}
		r.gate <- struct{}{}
		check(t, <-first, "a")
		close(r.gate)
		check(t, <-claimLater(t.Context(), o, "c"), "c")
		if got := fmt.Sprint(r.seen()); got != "[[a] [c]]" {
			t.Fatalf("sent %s, want no b", got)
		}
	})
}

// A caller that gives up holds nobody, and may use its bytes again at once.
func TestGroupCallerGivesUpAfterItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{Flushes: 1})
		blocker := claimLater(t.Context(), o, "blocker")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		entries := ask("b")
		gone := make(chan error, 1)
		go func() {
			_, err := o.Claim(ctx, entries)
			gone <- err
		}()
		synctest.Wait()
		other := claimLater(t.Context(), o, "c")
		synctest.Wait()
		r.gate <- struct{}{}
		check(t, <-blocker, "blocker")
		synctest.Wait() // b and c are in flight together
		cancel()
		if err := <-gone; !ledger.Unknown(err) || !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want an unknown answer", err)
		}
		copy(entries[0].Key.ID, "X")
		close(r.gate)
		check(t, <-other, "c")
		if got := fmt.Sprint(r.seen(), r.read); got != "[[blocker] [b c]] [blocker b c]" {
			t.Fatalf("sent and read %s", got)
		}
	})
}

func TestGroupErrorGoesToEveryCallerOfTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		r := &recorder{gate: make(chan struct{}), fail: func(ids []string) error {
			if slices.Contains(ids, "b") {
				return down
			}
			return nil
		}}
		o := ledger.Group(r, ledger.GroupConfig{Flushes: 1})
		first := claimLater(t.Context(), o, "a")
		synctest.Wait()
		b, c := claimLater(t.Context(), o, "b"), claimLater(t.Context(), o, "c")
		synctest.Wait()
		close(r.gate)
		check(t, <-first, "a")
		for _, got := range []answered{<-b, <-c} {
			if !errors.Is(got.err, down) || ledger.Unknown(got.err) {
				t.Fatalf("%v, want %v, known", got.err, down)
			}
		}
		check(t, <-claimLater(t.Context(), o, "c"), "c")
	})
}

// A call that was cut in two, of which one part failed, was carried out in part: its answer is unknown.
func TestGroupPartOfACallFails(t *testing.T) {
	r := &recorder{fail: func(ids []string) error {
		if slices.Contains(ids, "3") {
			return errors.New("down")
		}
		return nil
	}}
	o := ledger.Group(r, ledger.GroupConfig{Items: 2})
	if _, err := o.Claim(t.Context(), ask(numbers(0, 6)...)); !ledger.Unknown(err) {
		t.Fatalf("%v, want an unknown answer", err)
	}
}

type shortAnswers struct{ ledger.Owner }

func (shortAnswers) Settle(context.Context, []ledger.Settlement) ([]error, error) { return nil, nil }

func TestGroupStoreAnswersTooFew(t *testing.T) {
	o := ledger.Group(shortAnswers{}, ledger.GroupConfig{})
	if _, err := o.Settle(t.Context(), make([]ledger.Settlement, 2)); !ledger.Unknown(err) {
		t.Fatalf("%v, want an unknown answer", err)
	}
}
