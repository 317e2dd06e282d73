package model_test

import (
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/internal/model"
)

// One worker, one message, and the answer of one statement is lost. All orders of events keep the promises. If the message
// is deleted from the queue before its settlement, one does not.
func Example() {
	world := model.Config{Workers: 1, Messages: []model.Kind{model.Innocent}, Losses: 1}
	report, err := model.Explore(world, 10_000, 1)
	fmt.Println(report.Complete, err)

	world.Off = []model.Guard{model.SettleBeforeAck}
	_, err = model.Explore(world, 10_000, 1)
	if v, ok := errors.AsType[*model.Violation](err); ok {
		fmt.Println(v.Promise)
		for _, line := range v.Trace {
			fmt.Println(" ", line)
		}
	}
	// Output:
	// true <nil>
	// nothing is lost: a message is nowhere, and not finished
	//   worker 0 joins owner 0
	//   worker 0 receives copy 0 of message A
	//   worker 0 claims copy 0: message A is pending, token 1, owner 0's
	//   worker 0 starts the handler of copy 0: message A is pending, token 1, owner 0's
	//   worker 0 ends the handler of copy 0: message A is pending, token 1, owner 0's
	//   worker 0 deletes copy 0: message A is pending, token 1, owner 0's
}
