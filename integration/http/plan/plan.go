package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/ackledger/ackledger/internal/killpoint"
)

// The steps of a request's way in the server itself. Those of the engine lie between them: see [Steps].
const (
	InTransaction killpoint.Step = "in-transaction" // the handler's transaction has begun
	Effected      killpoint.Step = "effected"       // the effect is in it, and no answer
	Answered      killpoint.Step = "answered"       // so is the answer; it is about to commit
	Committed     killpoint.Step = "committed"      // it has committed, and the handler has not returned
	Sending       killpoint.Step = "sending"        // the answer is about to be sent
	HalfSent      killpoint.Step = "half-sent"      // half of it is on the wire
)

// Steps are the steps of a request whose handler works in the ledger's transaction, in their order. Its settlement is that
// transaction's commit.
var Steps = []killpoint.Step{
	killpoint.Received, killpoint.Claimed, killpoint.BeforeEffect, InTransaction, Effected, Answered, Committed,
	killpoint.AfterEffect, Sending, HalfSent,
}

// OutsideSteps are those of a request whose effect is elsewhere: the engine settles it.
var OutsideSteps = []killpoint.Step{
	killpoint.Claimed, Effected, killpoint.AfterEffect, killpoint.BeforeSettle, killpoint.AfterSettle, Sending,
}

// Stores are the ledgers that outlive a process.
var Stores = []string{"sqlite", "postgres"}

// Table is where effects are written. It has no unique constraint: what is done twice has two rows.
const Table = `CREATE TABLE effect (name text NOT NULL, answer text NOT NULL, process text NOT NULL, token bigint NOT NULL)`

// OutsideTable stands for a service elsewhere, which knows a child key again, and answers as it did.
const OutsideTable = `CREATE TABLE outside (child text PRIMARY KEY, name text NOT NULL, answer text NOT NULL)`

// Variable is the environment's variable with a process' orders, in JSON.
const Variable = "ACKLEDGER_HTTP_ORDERS"

// Stopping is what a process prints before it stops itself.
const Stopping = "stopping"

// Orders are what a process is to do.
type Orders struct {
	Name     string        // of the process
	Store    string        // one of Stores
	Database string        // URL or path
	Lease    time.Duration // of its runner
	Stop     bool          // it stops itself (SIGSTOP) at its first effect, and goes on when it is woken (SIGCONT)
}

// Environment is the variable as a process gets it.
func (o *Orders) Environment() (string, error) {
	text, err := json.Marshal(o)
	return Variable + "=" + string(text), err
}

// Read reads the orders of this process. It fails where there are none.
func Read() (*Orders, error) {
	o := new(Orders)
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), o); err != nil {
		return nil, fmt.Errorf("plan: %s: %w", Variable, err)
	}
	return o, nil
}
