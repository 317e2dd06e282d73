package killpoint

// Step is a place in a message's way.
type Step string

// The steps, in the order in which a message passes them. Claims, settles and acknowledgements are calls for many
// messages: the process dies with all of them on their way.
const (
	Received     Step = "received"      // the broker has delivered, the ledger was not asked
	Claimed      Step = "claimed"       // the ledger says that messages are ours, the worker does not know yet
	BeforeEffect Step = "before-effect" // the handler is about to be called
	AfterEffect  Step = "after-effect"  // the handler has returned
	BeforeSettle Step = "before-settle"
	AfterSettle  Step = "after-settle" // the ledger has it, the worker does not know yet
	BeforeAck    Step = "before-ack"   // SQS: delete; Kafka: commit
	AfterAck     Step = "after-ack"
	Published    Step = "published" // the dead letter is published, its failure not settled
)

// Steps are all steps.
var Steps = []Step{
	Received, Claimed, BeforeEffect, AfterEffect, BeforeSettle, AfterSettle, BeforeAck, AfterAck, Published,
}

// Variable is the environment's variable that says where to die: a step, and after an @ at which passage, from 1.
const Variable = "ACKLEDGER_KILLPOINT"
