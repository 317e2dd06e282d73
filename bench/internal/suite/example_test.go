package suite_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

func Example() {
	cases := []suite.Case{
		{Group: "g", Name: "bare", Run: func(context.Context, *suite.Run) (suite.Result, error) {
			return suite.Throughput(100, time.Second), nil
		}},
		{Group: "g", Name: "ours", Run: func(context.Context, *suite.Run) (suite.Result, error) {
			return suite.Throughput(90, time.Second), nil
		}},
	}
	out, err := (&suite.Runner{Mode: suite.Quick, Rounds: 3}).Run(context.Background(), cases)
	if err != nil {
		fmt.Println(err)
	}
	for _, v := range suite.Judge(out, []suite.Goal{{Text: "at least 80 % of bare", Bound: 0.8,
		Value: func(r suite.Round) float64 { return r.Rate("g/ours") / r.Rate("g/bare") }}}) {
		fmt.Println(v.Goal.Text, v.Median, v.Met())
	}
	// Output: at least 80 % of bare 0.9 true
}
