package replay

import (
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// InPlaceOptions are what a replay in place is built of, beside the handler. The zero value of each field means its default.
type InPlaceOptions struct {
	// Options are the worker's: its KeyFunc and FingerprintFunc are not asked, Name, Window and maintenance are not used.
	consumer.Options
	// Window is how long a message that succeeds is recognised. Default 90 days, the archive's. For people whose workers
	// have a longer one.
	Window time.Duration
}

// InPlace is a target that runs the user's handler in this process, under the engine's rules: attempts, time limits,
// InTx, suspects one at a time. Nothing is sent. It is the default for Kafka in a program, because a record that is put
// back on a topic reaches every group.
//
// Each dead letter is a claim with a delivery of its own, `replay:` and the failing claim's token: the same failure is
// handled once, by whichever replay is first. A handler that fails leaves the message pending with its backoff (a later
// run tries again) or, at the last attempt, failed and archived anew. A process that is killed leaves the message pending
// and, once its lease is over, nobody's: the next replay goes on with it.
//
// The ledger of the run must be a ledger.Ledger too; the stores of this module are.
func InPlace(h consumer.Handler, o *InPlaceOptions) (Target, error) { return nil, nil }
