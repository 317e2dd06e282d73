package killpoint_test

import (
	"fmt"

	"github.com/ackledger/ackledger/internal/killpoint"
)

// Without the build tag killpoints, and with it unless the environment names the step, nothing happens.
func ExampleAt() {
	for _, step := range killpoint.Steps {
		killpoint.At(step)
	}
	fmt.Println("alive after", len(killpoint.Steps), "steps")
	// Output: alive after 9 steps
}
