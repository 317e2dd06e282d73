package visibility_test

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/visibility"
)

func Example() {
	t := visibility.New(time.Minute, 12*time.Hour, false)
	h := &visibility.Hold{ID: "message", Handle: "handle"}
	t.Receive(h, 0, time.Second)

	batches, _ := t.Plan(25*time.Second, true, 1)
	fmt.Println(batches[0][0].Handle, batches[0][0].Seconds)
	t.Ack(h) // its delete waits for the answer
	fmt.Println(len(t.TakeDeletes()))
	t.Changed(batches[0], []visibility.Outcome{visibility.Changed}, 25*time.Second, 26*time.Second)

	d := t.TakeDeletes()[0]
	t.Deleted(d)
	fmt.Println(t.Lanes())
	// Output:
	// handle 60
	// 0
	// 0 0
}
