package backoff_test

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
)

func Example() {
	p := backoff.Policy{Base: time.Second, Max: 15 * time.Minute}
	fmt.Println(p.Delay(1, 0.5), p.Delay(4, 0.5), p.Ceiling(100))
	// Output: 500ms 4s 15m0s
}
