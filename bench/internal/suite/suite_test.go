package suite_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

func TestMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		in                []float64
		median, low, high float64
	}{
		{[]float64{3}, 3, 3, 3},
		{[]float64{9, 1, 5}, 5, 1, 9},
		{[]float64{4, 1, 2, 3}, 2.5, 1, 4},
	} {
		in := slices.Clone(c.in)
		low, high := suite.Spread(in)
		if got := suite.Median(in); got != c.median || low != c.low || high != c.high || !slices.Equal(in, c.in) {
			t.Errorf("%v: median %v, spread %v to %v (and then %v)", c.in, got, low, high, in)
		}
	}
	if low, high := suite.Spread(nil); !math.IsNaN(suite.Median(nil)) || !math.IsNaN(low) || !math.IsNaN(high) {
		t.Error("no values are not a number")
	}
}

func TestQuantile(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[99-i] = float64(i + 1)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := suite.Quantile(values, q); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(suite.Quantile([]float64(nil), 0.5)) {
		t.Error("no values have no quantile")
	}
}

// fixed is a case that measures what it is told, one value a round.
func fixed(group, name string, order *[]string, rates ...float64) suite.Case {
	i := 0
	return suite.Case{Group: group, Name: name, Run: func(context.Context, *suite.Run) (suite.Result, error) {
		*order = append(*order, name)
		rate := rates[i]
		i++
		if rate == 0 {
			return nil, errors.New("broken")
		}
		return suite.Result{suite.Rate: rate}, nil
	}}
}

// The cases of a group are measured in turn, each round begins with another one, and a ratio is taken within a round: a
// machine that is slow for one round changes no ratio.
func TestRunnerInterleavesAndJudgesWithinRounds(t *testing.T) {
	var order []string
	cases := []suite.Case{fixed("g", "ours", &order, 80, 8, 90), fixed("g", "bare", &order, 100, 10, 100), fixed("h", "other", &order, 1, 0, 1)}
	out, err := (&suite.Runner{Rounds: 3}).Run(t.Context(), cases)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"ours", "bare", "bare", "ours", "ours", "bare", "other", "other", "other"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if row := out.Rows[2]; row.Err == nil || len(row.Values(suite.Rate)) != 2 {
		t.Errorf("a round that failed: %v, %v", row.Values(suite.Rate), row.Err)
	}
	ratio := func(r suite.Round) float64 { return r.Rate("g/ours") / r.Rate("g/bare") }
	got := suite.Judge(out, []suite.Goal{
		{Bound: 0.8, Value: ratio}, {Bound: 0.81, Value: ratio}, {Bound: 0.8, AtMost: true, Value: ratio},
		{Bound: 1, Value: func(r suite.Round) float64 { return r.Rate("g/missing") }},
	})
	if v := got[0]; !v.Known() || v.Median != 0.8 || v.Low != 0.8 || v.High != 0.9 || !v.Met() {
		t.Errorf("%+v", v)
	}
	if got[1].Met() || !got[2].Met() || got[3].Known() || got[3].Met() {
		t.Errorf("%+v", got[1:])
	}
}

// What a run made is undone after it, what a group shares after the group, the last thing first.
func TestScopesEnd(t *testing.T) {
	var log []string
	note := func(s string) func() error { return func() error { log = append(log, s); return nil } }
	c := suite.Case{Group: "g", Name: "c", Run: func(_ context.Context, r *suite.Run) (suite.Result, error) {
		for _, scope := range []*suite.Scope{r.All, r.Of} {
			name := map[*suite.Scope]string{r.All: "all", r.Of: "group"}[scope]
			if _, err := suite.Once(scope, name, func() (int, func() error, error) { return 1, note(name), nil }); err != nil {
				return nil, err
			}
		}
		r.Cleanup(note("first"))
		r.Cleanup(note("second"))
		return suite.Result{}, nil
	}}
	if _, err := (&suite.Runner{Rounds: 2}).Run(t.Context(), []suite.Case{c}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"second", "first", "second", "first", "group", "all"}; !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
}

func TestSelect(t *testing.T) {
	all := []suite.Case{{Group: "ledger", Name: "a"}, {Group: "kafka", Name: "b"}}
	if got, err := suite.Select(all, "^kafka/"); err != nil || len(got) != 1 || got[0].Name != "b" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"nothing", "("} {
		if _, err := suite.Select(all, bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
