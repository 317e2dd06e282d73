package plan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/ackledger/ackledger/internal/killpoint"
)

// The steps of a request's way in the server itself. Those of the engine lie between them: see [Steps].
const (
	InTransaction killpoint.Step = "in-transaction" // the handler's transaction has begun
	Called        killpoint.Step = "called"         // an outside call was made, and the ledger knows nothing of it
	Recorded      killpoint.Step = "recorded"       // it is a step in the ledger, and nothing else of it is done
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

// CallSteps are those of a request that makes outside calls: Called and Recorded are of the first one.
var CallSteps = []killpoint.Step{killpoint.Claimed, Called, Recorded, Effected, killpoint.BeforeSettle, Sending}

// The routes, by where a request has its effect. A request's path is its route and a name of its own.
const (
	Pay     = "/pay/"     // in the ledger's transaction
	Outside = "/outside/" // elsewhere, under its child key
	Calls   = "/calls/"   // elsewhere, by one outside call after the other ([OutsideCalls])
)

// OutsideCalls are the outside calls of a request of Calls, in their order. Each is a step of the request.
var OutsideCalls = []string{"charge", "ship"}

// Path draws the path of the n-th request of a lane.
func Path(seed uint64, lane, n int) string {
	route := []string{Pay, Outside, Calls}[rand.New(rand.NewPCG(seed, uint64(lane)<<32|uint64(n))).IntN(3)]
	return fmt.Sprintf("%s%d-%d", route, lane, n)
}

// Receipt is the Location of the answer to what had the effect with an id.
func Receipt(id string) string { return "/receipts/" + id }

// Stores are the ledgers that outlive a process.
var Stores = []string{"sqlite", "postgres"}

// Table is where effects are written, by the path of their request. It has no unique constraint: what is done twice has two rows.
const Table = `CREATE TABLE effect (id text NOT NULL, path text NOT NULL, answer text NOT NULL, process text NOT NULL, token bigint NOT NULL)`

// OutsideTable stands for a service elsewhere, which knows a child key again, and answers as it did.
const OutsideTable = `CREATE TABLE outside (child text PRIMARY KEY, id text NOT NULL, path text NOT NULL, answer text NOT NULL)`

// CallTable stands for a service elsewhere that knows nothing again: each call has an id of its own, so that the results of two calls of a
// step are told apart. There is a row of each call that was made (CallMade), and one of each step that was returned to its handler
// (CallReturned), whether that attempt has made the call or an earlier one. Both have the token of the attempt that wrote them.
const CallTable = `CREATE TABLE outside_call (event text NOT NULL, child text NOT NULL, path text NOT NULL, step text NOT NULL, id text NOT NULL,
	token bigint NOT NULL)`

// The events of CallTable.
const (
	CallMade     = "made"
	CallReturned = "returned"
)

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
	Stop     bool          // it stops itself (SIGSTOP) before its first effect of Pay, or after its first outside call, and goes on when it is woken (SIGCONT)
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
