package sim_test

import (
	"fmt"

	"github.com/ackledger/ackledger/internal/sim"
)

func ExampleRun() {
	r, err := sim.Run(sim.Drawn(7))
	fmt.Println(r.Messages, "messages,", err)
	// Output: 61 messages, <nil>
}
