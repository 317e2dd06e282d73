package suite

import (
	"context"
	"errors"
	"testing"
	"time"
)

// What a run counts is shown beside its rate, as so many a second of the same time; without a rate it is not shown.
func TestRunsCount(t *testing.T) {
	for _, res := range []Result{Throughput(200, time.Second/2), {P50: 3}} {
		at := int64(1000)
		c := Case{Group: "g", Name: "n", Run: func(_ context.Context, r *Run) (Result, error) {
			if err := r.Count(Commits, func() (int64, error) { return at, nil }); err != nil {
				return nil, err
			}
			at += 50
			return res, nil
		}}
		got, err := c.measure(t.Context(), &Run{N: 200})
		want := map[bool]float64{true: 100}[res[Rate] > 0]
		if n, shown := got[Commits]; err != nil || n != want || shown != (want > 0) {
			t.Errorf("%v, %v, want %v commits/s", got, err, want)
		}
	}
	away := errors.New("away")
	c := Case{Run: func(_ context.Context, r *Run) (Result, error) {
		reads := 0
		return Throughput(1, time.Second), r.Count(Commits, func() (int64, error) { reads++; return 0, map[int]error{2: away}[reads] })
	}}
	if _, err := c.measure(t.Context(), &Run{N: 1}); !errors.Is(err, away) {
		t.Errorf("%v, want what the counter says", err)
	}
}
