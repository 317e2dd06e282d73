package response_test

import (
	"fmt"

	"github.com/ackledger/ackledger/internal/response"
	"github.com/ackledger/ackledger/ledger"
)

// A repetition waits while somebody else runs the request, and gets what is stored once that has succeeded.
func Example() {
	var c response.Call
	c.Hear(&ledger.Claim{Answer: ledger.Busy, Held: true})
	c.Hear(&ledger.Claim{Answer: ledger.Done, Outcome: ledger.Outcome{State: ledger.Succeeded, Result: []byte("paid")}})
	if c.NotRun(true, false, false) == response.Stored {
		fmt.Printf("%s\n", c.Heard.Outcome.Result)
	}
	// Output: paid
}
