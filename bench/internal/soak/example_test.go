package soak_test

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/bench/internal/soak"
)

// A process that grows all the time is not flat.
func ExampleJudge() {
	var samples []soak.Sample
	for i := range 30 {
		samples = append(samples, soak.Sample{At: time.Duration(i) * time.Minute, Resident: 100 + 2*float64(i)})
	}
	fmt.Println(soak.Judge(samples))
	// Output: the resident size grew by 15.5 % from the middle third to the last, more than 10 %
}
