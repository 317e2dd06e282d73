package maintenance_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
)

// A row that was removed buys the way past twenty others, in the rest of its pass and through one pass more.
func TestSweepPaceBuysTheWayPastOthers(t *testing.T) {
	p := maintenance.NewPace(100, time.Second)
	rests := func(name string, removed, rows int64, want bool) {
		t.Helper()
		if got := p.Pause(time.Second, removed, rows) > 0; got != want {
			t.Errorf("%s: rests: %v, want %v", name, got, want)
		}
	}
	rests("10 removed of 20 pay for 180 others", 10, 20, false)
	rests("the first 179 of them", 0, 179, false)
	rests("the last one", 0, 1, true)
	p.PassEnded()
	rests("1,000 removed of 1,000 in the next pass pay for 19,000", 1000, 1000, false)
	p.PassEnded()
	rests("of which as many are left as the pass had looked at", 0, 999, false)
	rests("and no more", 0, 1, true)
}

// A sweep with little to remove, or with nothing to look at, leaves the database to others four times as long as it took.
func TestSweepPaceRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := maintenance.NewPace(100, time.Second)
		for name, c := range map[string]struct {
			took          time.Duration
			removed, rows int64
			want          time.Duration
		}{
			"nothing to look at":       {time.Second, 0, 0, 4 * time.Second},
			"nothing to remove":        {time.Second, 0, 100, 4 * time.Second},
			"never above its limit":    {time.Minute, 0, 100, 10 * time.Second},
			"what took no time at all": {0, 0, 100, 0},
		} {
			began := time.Now()
			if err := p.Rest(t.Context(), c.took, c.removed, c.rows); err != nil || time.Since(began) != c.want {
				t.Errorf("%s: rested %s, %v, want %s", name, time.Since(began), err, c.want)
			}
		}
		began := time.Now()
		if err := p.Rest(t.Context(), time.Second, 5, 100); err != nil || time.Since(began) != 0 {
			t.Errorf("much to remove: rested %s, %v", time.Since(began), err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, took := range []time.Duration{0, time.Second} {
			if err := p.Rest(ended, took, 0, 1000); !errors.Is(err, context.Canceled) {
				t.Errorf("with a context that ended, after %s: %v", took, err)
			}
		}
	})
}
