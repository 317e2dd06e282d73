package cases_test

import (
	"fmt"

	"github.com/ackledger/ackledger/bench/internal/cases"
	"github.com/ackledger/ackledger/bench/internal/suite"
)

func ExampleAll() {
	some, err := suite.Select(cases.All(), "^latency")
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range some {
		fmt.Println(c.ID())
	}
	// Output:
	// latency at 1,000 messages/s/two bare commits
	// latency at 1,000 messages/s/ours, claim and settle
	// latency at 1,000 messages/s/ours, in ranges
}
