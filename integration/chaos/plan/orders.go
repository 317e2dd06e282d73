package plan

import "time"

// Variable is the environment's variable that holds a worker's orders, in JSON.
const Variable = "ACKLEDGER_CHAOS_WORKER"

// Orders are what a worker process is told.
type Orders struct {
	Name   string // of the process
	Seed   uint64 // of what handlers do
	Faults bool   // handlers fail now and then; else they only do what the message's class says
	Deaf   int    // of a thousand handlers of fine messages, how many ignore that their context has ended
	// DeafFor is the longest for which they go on then, an eighth of it the shortest.
	DeafFor time.Duration

	Store    string // "postgres" or "sqlite"
	Database string // URL, or path
	Page     string // path of the process' [Page]
	Journal  string // path of the file to which each handler's begin is appended

	Group   string   // consumer group, or name
	Brokers []string // Kafka, or:
	Dial    string   // where connections to any broker go, if not to it: a proxy
	Topic   string
	Rows    bool   // AuditRows
	KIP848  bool   // the new group protocol
	Parks   bool   // retries that wait for a second are parked; records have no order
	Keyed   bool   // with Parks: they keep that of their keys, or groups, so a key is parked
	Batch   bool   // a batch handler, which has no faults of its own
	Queue   string // SQS: URL, with the endpoint beside it
	Client  string // endpoint
	Dead    string // dead-letter topic, or queue
	Refuse  int    // of a hundred dead letters, how many the target refuses
	Lease   time.Duration
	Window  time.Duration // visibility of SQS, session of Kafka
	Reset   bool          // Kafka: go on where the log goes on after records were lost
}
