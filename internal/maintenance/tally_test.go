package maintenance_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
)

// A tally's percentiles are those of the sorted ages, and too high by a tenth at most.
func TestTallyPercentiles(t *testing.T) {
	for round := range 50 {
		var tally maintenance.Tally
		var ages []time.Duration
		for range 1 + rand.IntN(2000) {
			age := time.Duration(math.Exp(rand.Float64() * 35))
			ages = append(ages, age)
			tally.AddPending("s", maintenance.AgeBucket(age), 1, 0, age)
		}
		slices.Sort(ages)
		got := tally.Scopes()[0]
		exact := func(p int) time.Duration { return ages[(len(ages)*p+99)/100-1] }
		for p, age := range map[int]time.Duration{95: got.PendingAgeP95, 99: got.PendingAgeP99} {
			if want := exact(p); age < want || float64(age) > 1.11*float64(want)+1e3 {
				t.Errorf("round %d: p%d of %d ages is %v, want %v", round, p, len(ages), age, want)
			}
		}
		if got.OldestPending != ages[len(ages)-1] || got.Pending != int64(len(ages)) {
			t.Errorf("round %d: %+v", round, got)
		}
	}
}

func TestAgeBucketsHoldAnyAge(t *testing.T) {
	for _, age := range []time.Duration{math.MinInt64, -1, 0, 1, time.Microsecond, time.Hour, ledger.MaxWindow, math.MaxInt64} {
		b := maintenance.AgeBucket(age)
		if b < 0 || maintenance.BucketAge(b) < max(age, 0)-time.Microsecond {
			t.Errorf("age %v: bucket %d up to %v", age, b, maintenance.BucketAge(b))
		}
	}
}

func TestTallyNamesTheLargestScopesAndTheOldestAbandoned(t *testing.T) {
	var tally maintenance.Tally
	for i := range ledger.MaxStatScopes + 10 {
		tally.Add(strings.Repeat("s", i+1), ledger.Succeeded, int64(i))
	}
	tally.Add("failed", ledger.Failed, 1e6)
	scopes := tally.Scopes()
	if len(scopes) != ledger.MaxStatScopes || scopes[0].Scope != "failed" || scopes[1].Succeeded != ledger.MaxStatScopes+9 {
		t.Errorf("%d scopes, first %+v and %+v", len(scopes), scopes[0], scopes[1])
	}
	for i := range 1000 {
		tally.Abandon(ledger.Abandoned{Expiry: time.Unix(int64((i*7)%1000), 0)})
	}
	oldest := tally.Oldest()
	for i, a := range oldest {
		if a.Expiry.Unix() != int64(i) {
			t.Errorf("abandoned %d expired at %d", i, a.Expiry.Unix())
		}
	}
	if len(oldest) != ledger.MaxAbandoned {
		t.Errorf("%d abandoned messages are named", len(oldest))
	}
}

func TestMaintainConfigIsRefusedByName(t *testing.T) {
	if c, err := maintenance.WithDefaults(ledger.MaintainConfig{}); err != nil || c.Keep != ledger.DefaultKeep ||
		c.Interval != ledger.DefaultSweepInterval || c.Batch != ledger.DefaultSweepBatch {
		t.Errorf("defaults: %+v, %v", c, err)
	}
	for field, configs := range map[string][]ledger.MaintainConfig{
		"MaintainConfig.Keep":     {{Keep: -1}, {Keep: time.Microsecond}, {Keep: ledger.MaxWindow + 1}},
		"MaintainConfig.Interval": {{Interval: -1}, {Interval: 1}, {Interval: 25 * time.Hour}},
		"MaintainConfig.Batch":    {{Batch: -1}, {Batch: 99}, {Batch: 100_001}},
	} {
		for _, c := range configs {
			var bad *ledger.InvalidError
			if _, err := maintenance.WithDefaults(c); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}
