package response

import (
	"sync/atomic"

	"github.com/ackledger/ackledger/ledger"
)

// Response is what a caller is told of its request.
type Response uint8

// The responses. What stands from Unavailable on says that the caller's function was not run.
const (
	Answer  Response = iota // its function's, which is stored
	Failure                 // its function's, for good
	Stored                  // what the ledger has: Call.Heard.Outcome
	Crashed                 // it has failed for good because of its crashes: Call.Heard.Crashes
	Error                   // its function's, which is to be run again
	Unknown                 // whether it was done
	Unavailable
	InProgress
	Mismatch
)

// Call is what the ledger has said of one call. Whoever asks the ledger writes it; all but Differs wait for that.
type Call struct {
	Heard   ledger.Claim // what it said last
	differs atomic.Bool
}

// Hear notes what the ledger says. Whoever asks again once the call's own failure is filed is told that it is
// pending where somebody runs the request again. So what the ledger has said of the call itself stays.
func (c *Call) Hear(a *ledger.Claim) {
	if a.Answer == ledger.Mismatch {
		c.differs.Store(true)
	}
	filed := a.Answer == ledger.Done && a.Outcome.State == ledger.Pending
	if c.Heard.Err == nil && !filed {
		c.Heard = *a
	}
}

// Differs says whether the ledger knows the key with another body. It may be called at any time.
func (c *Call) Differs() bool { return c.differs.Load() }

// NotRun is what a caller is told whose function was not run: ack is the core's verdict, meets says that another body runs in this process,
// and declined that the call does not wait for others, while functions may start.
func (c *Call) NotRun(ack, meets, declined bool) Response {
	switch {
	case c.Differs(), !ack && meets:
		return Mismatch
	case !ack && declined:
		return InProgress
	case !ack:
		return Unavailable
	case c.Heard.Answer == ledger.Done:
		return Stored
	}
	return Crashed
}

// Ran is what a caller is told whose function has run: ack is the core's verdict, committed says that its transaction has settled the
// request, and failed that it returned an error. Where the transaction was not answered, or the lease was lost, the ledger was asked again
// what became of the request.
func (c *Call) Ran(ack, committed, failed bool) Response {
	switch {
	case ack && committed:
		return Answer
	case ack && c.Heard.Answer == ledger.Done:
		return Stored
	case ack && c.Heard.Answer == ledger.Spent:
		return Crashed
	case ack && c.Differs():
		return Unknown
	case ack && failed:
		return Failure
	case ack:
		return Answer
	case failed && !committed:
		return Error
	}
	return Unknown
}
