package promises_test

import (
	"fmt"

	"github.com/ackledger/ackledger/internal/promises"
)

func Example() {
	fmt.Println(promises.NothingLost + ": message A is nowhere, and not finished")
	// Output: nothing is lost: message A is nowhere, and not finished
}
