package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
	"pgregory.net/rapid"
)

func TestCeilingDoublesUpToMax(t *testing.T) {
	p := backoff.Policy{Base: time.Second, Max: 15 * time.Minute}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900}
	for i, w := range want {
		if got := p.Ceiling(i + 1); got != w*time.Second {
			t.Errorf("Ceiling(%d) = %s, want %s", i+1, got, w*time.Second)
		}
	}
}

func TestWholeIsTheSumOfAllDelays(t *testing.T) {
	p := backoff.Policy{Base: time.Second, Max: time.Minute}
	for attempts, want := range map[int]time.Duration{-1: 0, 0: 0, 1: 0, 2: 1, 4: 7, 7: 63, 8: 123, 10: 243} {
		if got := p.Whole(attempts); got != want*time.Second {
			t.Errorf("Whole(%d) = %s, want %s", attempts, got, want*time.Second)
		}
	}
	if got := (backoff.Policy{Base: math.MaxInt64}).Whole(3); got != math.MaxInt64 {
		t.Errorf("more than there is: %s", got)
	}
}

func TestDelayStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := backoff.Policy{
			Base: time.Duration(rapid.Int64().Draw(t, "base")),
			Max:  time.Duration(rapid.Int64().Draw(t, "max")),
		}
		retry := rapid.Int().Draw(t, "retry") % 10_000
		low, high := p.Delay(retry, 0), p.Delay(retry, rapid.Float64Range(0, 1).Draw(t, "draw"))
		if low != 0 || high < 0 || high > p.Ceiling(retry) || p.Ceiling(retry) <= 0 {
			t.Fatalf("delays %s..%s of ceiling %s", low, high, p.Ceiling(retry))
		}
		if p.Ceiling(retry+1) < p.Ceiling(retry) {
			t.Fatalf("ceiling shrinks from retry %d on", retry)
		}
	})
}

func TestDelayOfTheLongestCeiling(t *testing.T) {
	p := backoff.Policy{Base: math.MaxInt64, Max: math.MaxInt64}
	if d := p.Delay(1, 1); d != math.MaxInt64 {
		t.Errorf("got %s", d)
	}
}

func TestDelayTreatsADrawOutsideOfItsRangeAsTheEnd(t *testing.T) {
	p := backoff.Policy{Base: time.Second, Max: time.Second}
	if p.Delay(1, -3) != 0 || p.Delay(1, 7) != time.Second {
		t.Errorf("got %s and %s", p.Delay(1, -3), p.Delay(1, 7))
	}
}
