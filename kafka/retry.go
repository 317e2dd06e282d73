package kafka

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
)

// callTimeout is that of one request to the cluster.
const callTimeout = 10 * time.Second

// adjustTries bounds how often the cluster is asked where new partitions begin, before the group's session starts anew.
const adjustTries = 8

// retryError marks what another try may mend.
type retryError struct{ err error }

func (r *retryError) Error() string {
	return "kafka: " + strings.TrimPrefix(r.err.Error(), "kafka: ")
}

func (r *retryError) Unwrap() error { return r.err }

// retryDelay is the delay before the n-th retry of a request.
func retryDelay(n int) time.Duration {
	p := backoff.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second}
	return p.Ceiling(n)/2 + p.Delay(n, rand.Float64())/2
}
