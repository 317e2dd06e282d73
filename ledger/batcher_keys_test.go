package ledger_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func TestGroupRepeatedKeyInOneCall(t *testing.T) {
	r := &recorder{}
	o := ledger.Group(r, ledger.GroupConfig{Items: 2})
	claims, err := o.Claim(t.Context(), ask("a", "b", "a", "c", "a"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []ledger.Answer{ledger.Run, ledger.Run, ledger.Busy, ledger.Run, ledger.Busy} {
		if claims[i].Answer != want {
			t.Errorf("claim %d: %v, want %v", i, claims[i].Answer, want)
		}
	}
}

// A key of two callers goes out once at a time.
func TestGroupNeverAsksAKeyTwiceAtOnce(t *testing.T) {
	r := &recorder{}
	o := ledger.Group(r, ledger.GroupConfig{Items: 5, Flushes: 4})
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for i := range 50 {
				ids := numbers((g+i)%7, 1+i%6)
				check(t, <-claimLater(t.Context(), o, ids...), ids...)
			}
		})
	}
	wg.Wait()
	if len(r.twice) > 0 {
		t.Fatalf("in two flushes at once: %v", r.twice)
	}
}

// After an unknown answer the statement may still reach the database until its deadline: the key waits, others do not.
func TestGroupKeyWaitsAfterAnUnknownAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		r := &recorder{}
		r.fail = func([]string) error {
			if !broken {
				return nil
			}
			broken = false
			return ledger.MarkUnknown(errors.New("connection reset"))
		}
		o := ledger.Group(r, ledger.GroupConfig{Timeout: 7 * time.Second})
		began := time.Now()
		if got := <-claimLater(t.Context(), o, "a"); !ledger.Unknown(got.err) || time.Since(began) != 0 {
			t.Fatalf("%v after %s, want an unknown answer at once", got.err, time.Since(began))
		}
		again := claimLater(t.Context(), o, "a")
		check(t, <-claimLater(t.Context(), o, "b"), "b")
		if waited := time.Since(began); waited != 0 {
			t.Fatalf("another key waited %s", waited)
		}
		check(t, <-again, "a")
		if waited := time.Since(began); waited != 7*time.Second {
			t.Fatalf("asked again after %s, want after the flush's deadline", waited)
		}
	})
}
