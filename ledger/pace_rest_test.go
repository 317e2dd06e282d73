package ledger_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// A sweep with little to remove, or with nothing to look at, leaves the database to others four times as long as it took.
func TestSweepPaceRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ledger.NewSweepPace(100, time.Second)
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
