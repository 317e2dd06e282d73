package maintenance_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
)

// After an error a store's maintenance waits a second, then twice as long each time, up to its interval; after a success it begins
// anew. Up to an eighth is added to each wait.
func TestRunMaintainBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		away := errors.New("away")
		answers := []error{away, away, away, away, nil, away, away}
		want := []time.Duration{1, 2, 4, 5, 3, 1} // seconds between the calls
		var at []time.Time
		err := maintenance.Run(ctx, ledger.MaintainConfig{Interval: 5 * time.Second}, func(context.Context) (time.Duration, error) {
			at = append(at, time.Now())
			if len(at) == len(answers) {
				cancel()
			}
			return 3 * time.Second, answers[len(at)-1]
		})
		if err != nil || len(at) != len(answers) {
			t.Fatalf("%d calls, %v", len(at), err)
		}
		for i, low := range want {
			low *= time.Second
			if wait := at[i+1].Sub(at[i]); wait < low || wait > low+low/8+1 {
				t.Errorf("wait %d is %s, want %s and an eighth at most", i+1, wait, low)
			}
		}
	})
}

// An error that trying again cannot mend ends the maintenance at once.
func TestRunMaintainEndsWhenTheStoreIsUnusable(t *testing.T) {
	calls, no := 0, ledger.MarkUnusable(errors.New("no table"))
	err := maintenance.Run(t.Context(), ledger.MaintainConfig{}, func(context.Context) (time.Duration, error) {
		calls++
		return 0, no
	})
	if !errors.Is(err, no) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
