package consumer_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

func TestDefaults(t *testing.T) {
	o, err := consumer.Options{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if o.Concurrency != 16 || o.Attempts != 10 || o.Lease != 30*time.Second || o.Drain != 25*time.Second || o.BackoffBase != time.Second ||
		o.BackoffMax != 15*time.Minute || o.HandlerTimeout != time.Hour || o.SlowAfter != 5*time.Minute || o.ClaimAhead != 4000 ||
		o.MaxHeld != 20_000 || o.MaxHeldBytes != 64<<20 || o.Keep != 90*24*time.Hour || o.Window != 0 || o.Logger == nil || o.Rate != 0 {
		t.Errorf("%+v", o)
	}
	o, err = consumer.Options{BackoffBase: time.Hour, Window: 365 * 24 * time.Hour}.WithDefaults()
	if err != nil || o.BackoffMax != time.Hour || o.Keep != 365*24*time.Hour {
		t.Errorf("defaults do not follow: %+v, %v", o, err)
	}
	if again, err := o.WithDefaults(); err != nil || again.Keep != o.Keep || again.BackoffMax != o.BackoffMax {
		t.Errorf("defaults of defaults: %+v, %v", again, err)
	}
}

// Each bound is named with its field and the value.
func TestOptionsBounds(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		want string // empty: allowed
		o    consumer.Options
	}{
		{"Options.Concurrency: must be 1 to 10000, is -1", consumer.Options{Concurrency: -1}},
		{"Options.Concurrency: must be 1 to 10000, is 10001", consumer.Options{Concurrency: 10_001}},
		{"", consumer.Options{Concurrency: 10_000}},
		{"", consumer.Options{Rate: 0.001}},
		{"", consumer.Options{Rate: 1e6}},
		{"Options.Attempts: must be 1 to 1000, is -1", consumer.Options{Attempts: -1}},
		{"Options.Attempts: must be 1 to 1000, is 1001", consumer.Options{Attempts: 1001}},
		{"Options.ClaimAhead: must be 1 to 100000, is -1", consumer.Options{ClaimAhead: -1}},
		{"Options.ClaimAhead: must be 1 to 100000, is 100001", consumer.Options{ClaimAhead: 100_001}},
		{"Options.MaxHeld: must be 1 to 1000000, is -5", consumer.Options{MaxHeld: -5}},
		{"Options.MaxHeld: must be 1 to 1000000, is 1000001", consumer.Options{MaxHeld: 1_000_001}},
		{"Options.MaxHeldBytes: must be 1 to 68719476736, is -1", consumer.Options{MaxHeldBytes: -1}},
		{"Options.Lease: must be 100ms to 1h0m0s, is 99ms", consumer.Options{Lease: 99 * time.Millisecond}},
		{"Options.Lease: must be 100ms to 1h0m0s, is 1h0m1s", consumer.Options{Lease: time.Hour + time.Second}},
		{"", consumer.Options{Lease: 100 * time.Millisecond}},
		{"Options.Drain: must be 1ms to 12h0m0s, is -1s", consumer.Options{Drain: -time.Second}},
		{"Options.Drain: must be 1ms to 12h0m0s, is 13h0m0s", consumer.Options{Drain: 13 * time.Hour}},
		{"Options.BackoffBase: must be 1ms to 12h0m0s, is 1ns", consumer.Options{BackoffBase: 1}},
		{"Options.BackoffMax: must be 1m0s to 12h0m0s, is 1s", consumer.Options{BackoffBase: time.Minute, BackoffMax: time.Second}},
		{"Options.BackoffMax: must be 1s to 12h0m0s, is 13h0m0s", consumer.Options{BackoffMax: 13 * time.Hour}},
		{"Options.HandlerTimeout: must be 1ms to 11h0m0s, is 11h0m1s", consumer.Options{HandlerTimeout: 11*time.Hour + time.Second}},
		{"Options.SlowAfter: must be 1ms to 12h0m0s, is -1ns", consumer.Options{SlowAfter: -1}},
		{"Options.Window: must be 0s to 876000h0m0s, is -1ns", consumer.Options{Window: -1}},
		{"Options.Window: must be 0s to 876000h0m0s", consumer.Options{Window: 101 * year}},
		{"Options.Keep: must be 2h0m0s to 876000h0m0s, is 1h0m0s", consumer.Options{Window: 2 * time.Hour, Keep: time.Hour}},
		{"Options.Keep: must be 1s to 876000h0m0s, is 1ms", consumer.Options{Keep: time.Millisecond}},
		{"Options.Rate: must be 0, or 0.001 to 1e+06, is -1", consumer.Options{Rate: -1}},
		{"Options.Rate: must be 0, or 0.001 to 1e+06, is NaN", consumer.Options{Rate: math.NaN()}},
		{"Options.Rate: must be 0, or 0.001 to 1e+06, is +Inf", consumer.Options{Rate: math.Inf(1)}},
		{"", consumer.Options{Rate: 0.5}},
		{"Options.ArchiveBudget: must be 0, or 1048576 to 1125899906842624, is 1048575", consumer.Options{ArchiveBudget: 1<<20 - 1}},
		{"Options.ArchiveBudget: must be 0, or 1048576 to 1125899906842624, is -1", consumer.Options{ArchiveBudget: -1}},
		{"Options.ArchiveBudget: must be 0, or 1048576", consumer.Options{ArchiveBudget: 1<<50 + 1}},
		{"", consumer.Options{ArchiveBudget: 1 << 20}},
		{"Options.Name: must be at most 255 bytes, is 256 bytes", consumer.Options{Name: strings.Repeat("n", 256)}},
		{"", consumer.Options{Name: strings.Repeat("n", 255)}},
		{"Options.Limiter: must be made by NewLimiter", consumer.Options{Limiter: &consumer.Limiter{}}},
		{"Options.Limiter: must be made by NewLimiter", consumer.Options{Limiter: consumer.NewLimiter(0)}},
		{"", consumer.Options{Limiter: consumer.NewLimiter(1)}},
		{"", consumer.Options{Park: true}},
		{"Options.Park: must not be set with Rate or Limiter", consumer.Options{Park: true, Rate: 1}},
		{"Options.Park: must not be set with Rate or Limiter", consumer.Options{Park: true, Limiter: consumer.NewLimiter(1)}},
		{"", consumer.Options{KeepFailed: true, KeyFunc: func(*consumer.Message) (string, error) { return "", nil }}},
		{"Options.KeepFailed: must be set with KeyFunc", consumer.Options{KeepFailed: true}},
		{"", consumer.Options{FairShare: 1, FairBy: func(*consumer.Message) string { return "" }, FairWeights: map[string]int{"a": 1000}}},
		{"", consumer.Options{MinConcurrency: 16, Pressure: func() float64 { return 0 }}},
		{"Options.MinConcurrency: must be 0 to 16, is 17", consumer.Options{MinConcurrency: 17}},
		{"Options.MinConcurrency: must be 0 to 4, is -1", consumer.Options{Concurrency: 4, MinConcurrency: -1}},
		{"Options.Park: must not be set with MinConcurrency", consumer.Options{Park: true, MinConcurrency: 1}},
		{"Options.Pressure: must be set with MinConcurrency", consumer.Options{Pressure: func() float64 { return 0 }}},
		{"Options.FairShare: must be 0 to 1000000, is -1", consumer.Options{FairShare: -1}},
		{"Options.FairShare: must be 0 to 1000000, is 1000001", consumer.Options{FairShare: 1_000_001}},
		{`Options.FairWeights["a"]: must be 1 to 1000, is 0`, consumer.Options{FairWeights: map[string]int{"a": 0}}},
		{`Options.FairWeights["a"]: must be 1 to 1000, is 1001`, consumer.Options{FairWeights: map[string]int{"a": 1001}}},
		{"Options.FairWeights: must be at most 10000 tenants, is 10001", consumer.Options{FairWeights: many(10_001)}},
		{"Options.Name: must be UTF-8 without control characters", consumer.Options{Name: "a\x00b"}},
		{"Options.Name: must be UTF-8 without control characters", consumer.Options{Name: "\xff"}},
	} {
		_, err := c.o.WithDefaults()
		if c.want == "" {
			if err != nil {
				t.Errorf("refused: %v", err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), "consumer: "+c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// many are so many weights.
func many(n int) map[string]int {
	weights := make(map[string]int, n)
	for i := range n {
		weights[strconv.Itoa(i)] = 1
	}
	return weights
}
