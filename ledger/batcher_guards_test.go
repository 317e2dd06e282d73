package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// A caller that waited for room and gave up lets in at once who is behind it and is smaller, although no room came free.
func TestGroupGivesWayToWhoIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		o := ledger.Group(r, ledger.GroupConfig{Items: 3, Flushes: 2, Queue: 4})
		first := claimLater(t.Context(), o, "a", "b", "c")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		large := claimLater(ctx, o, "d", "e")
		synctest.Wait()
		small := claimLater(t.Context(), o, "f")
		synctest.Wait()
		if got := fmt.Sprint(r.seen()); got != "[[a b c]]" {
			t.Fatalf("sent %s while the queue was full", got)
		}
		cancel()
		if got := <-large; !errors.Is(got.err, context.Canceled) || ledger.Unknown(got.err) {
			t.Fatalf("%v, want a known error", got.err)
		}
		synctest.Wait()
		if got := fmt.Sprint(r.seen()); got != "[[a b c] [f]]" {
			t.Errorf("sent %s: who waited behind the caller that left still waits", got)
		}
		close(r.gate)
		check(t, <-first, "a", "b", "c")
		check(t, <-small, "f")
	})
}

// Few large items fill the queue as many small ones do: it is bounded in bytes too, in proportion.
func TestGroupBlocksWhenTheQueueIsFullOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		cfg := ledger.GroupConfig{Items: 2, Bytes: 1000, Flushes: 4, Queue: 4} // room for 3,000 bytes
		o := ledger.Group(r, cfg)
		large := func(name string) string { return name + strings.Repeat("x", 900) }
		var calls []chan answered
		for i := range 3 {
			calls = append(calls, claimLater(t.Context(), o, large(fmt.Sprint(i))))
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := <-claimLater(ctx, o, large("3"))
		if !errors.Is(got.err, context.DeadlineExceeded) || ledger.Unknown(got.err) ||
			!strings.Contains(got.err.Error(), "room in the queue") {
			t.Fatalf("%v, want a known error of the full queue", got.err)
		}
		close(r.gate)
		for i, c := range calls {
			check(t, <-c, large(fmt.Sprint(i)))
		}
		check(t, <-claimLater(t.Context(), o, large("3")), large("3")) // what was answered gave its bytes back
	})
}

// A call cut in two may have been carried out if one of its parts may have been, whatever is known of the others.
func TestGroupPartOfACallIsUnknown(t *testing.T) {
	for name, unknown := range map[string]string{"the first part": "0", "the second part": "2"} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{fail: func(ids []string) error {
				err := errors.New("down")
				if slices.Contains(ids, unknown) {
					err = ledger.MarkUnknown(err)
				}
				return err
			}}
			o := ledger.Group(r, ledger.GroupConfig{Items: 2, Flushes: 1})
			if _, err := o.Claim(t.Context(), ask(numbers(0, 4)...)); !ledger.Unknown(err) {
				t.Errorf("%v, want an unknown answer", err)
			}
		})
	}
}
