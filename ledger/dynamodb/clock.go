package dynamodb

import (
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// clock is this machine's clock, set right by what the service says in the Date of its answers. It is for windows, expiries and
// delays, which nobody's safety hangs on: leases go by clocks that are never compared.
type clock struct {
	mu     sync.Mutex
	offset time.Duration // the service's clock less this machine's
	shift  time.Duration // of tests
}

// slack is what an offset may be before it counts: a Date has whole seconds, and an answer takes its time.
const slack = 5 * time.Second

// heard takes the service's time from an answer.
func (c *clock) heard(answer middleware.Metadata) {
	server, ok := awsmiddleware.GetServerTime(answer)
	if !ok {
		return
	}
	offset := time.Until(server)
	if offset.Abs() < slack {
		offset = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if (offset - c.offset).Abs() >= slack {
		c.offset = offset
	}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset + c.shift)
}
